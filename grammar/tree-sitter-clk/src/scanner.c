// Tokens that a grammar cannot express: newlines that end a statement, nested comments, the text of strings.
// The scanner has no state.

#include "tree_sitter/parser.h"

enum TokenType { NEWLINE, BLOCK_COMMENT_REST, STRING_CONTENT, OPEN_STEP, ERROR_SENTINEL };

void *tree_sitter_clk_external_scanner_create(void) { return NULL; }

void tree_sitter_clk_external_scanner_destroy(void *payload) { (void)payload; }

unsigned tree_sitter_clk_external_scanner_serialize(void *payload, char *buffer) {
    (void)payload;
    (void)buffer;
    return 0;
}

void tree_sitter_clk_external_scanner_deserialize(void *payload, const char *buffer, unsigned length) {
    (void)payload;
    (void)buffer;
    (void)length;
}

static void advance(TSLexer *lexer) { lexer->advance(lexer, false); }

static bool is_blank(int32_t c) { return c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v' || c == 0xFEFF; }

static bool is_word(int32_t c) {
    return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

// Reads the rest of a block comment after its "/*"; comments nest. Returns false at the end of the file.
static bool block_comment_rest(TSLexer *lexer) {
    unsigned depth = 1;
    while (depth > 0) {
        if (lexer->eof(lexer)) return false;
        int32_t c = lexer->lookahead;
        advance(lexer);
        if (c == '*' && lexer->lookahead == '/') {
            advance(lexer);
            depth--;
        } else if (c == '/' && lexer->lookahead == '*') {
            advance(lexer);
            depth++;
        }
    }
    return true;
}

// Reads literal text up to a quote, a brace, a backslash or the end of the line.
static bool string_content(TSLexer *lexer) {
    bool any = false;
    for (;;) {
        switch (lexer->lookahead) {
            case '"':
            case '\\':
            case '{':
            case '}':
            case '\n':
                return any;
            default:
                if (lexer->eof(lexer)) return any;
                advance(lexer);
                any = true;
        }
    }
}

// Returns whether the token here, the first of its line, continues the statement of the previous line.
static bool continues_line(TSLexer *lexer) {
    switch (lexer->lookahead) {
        case '-':
            advance(lexer);
            return lexer->lookahead == '>' || lexer->lookahead == '=';
        case '!':
            advance(lexer);
            return lexer->lookahead == '=';
        case 'e':
            for (const char *word = "else"; *word; word++) {
                if (lexer->lookahead != *word) return false;
                advance(lexer);
            }
            return !is_word(lexer->lookahead);
        case '.':
        case ',':
        case ':':
        case '+':
        case '*':
        case '/':
        case '%':
        case '@':
        case '&':
        case '|':
        case '^':
        case '<':
        case '>':
        case '=':
        case '?':
        case ')':
        case ']':
        case '}':
            return true;
        default:
            return false;
    }
}

// Reads a newline that ends the previous statement. The token is empty and directly follows that statement, so that later comments
// remain separate tokens. The parser requests it only where a statement may end, so not within parentheses or in a header before its "{".
static bool newline(TSLexer *lexer) {
    bool seen = false;
    lexer->mark_end(lexer);
    for (;;) {
        if (lexer->eof(lexer)) return false;
        if (lexer->lookahead == '\n') {
            seen = true;
            advance(lexer);
        } else if (is_blank(lexer->lookahead)) {
            advance(lexer);
        } else if (lexer->lookahead == '/') {
            advance(lexer);
            if (lexer->lookahead == '*') {
                advance(lexer);
                if (!block_comment_rest(lexer)) return false;
            } else if (lexer->lookahead == '/') {
                unsigned slashes = 1;
                while (lexer->lookahead == '/') {
                    advance(lexer);
                    slashes++;
                }
                // Documentation belongs to the next item.
                if (slashes == 3 && seen) return true;
                while (lexer->lookahead != '\n' && !lexer->eof(lexer)) advance(lexer);
            } else {
                return false;
            }
        } else {
            return seen && !continues_line(lexer);
        }
    }
}

// Returns whether a "step" after ".." is the keyword, which a value follows, and not a name that is the end of the range.
// In "0..step step 2", "0..step(2)" and "0..step[2]", it is the end; in "0.. step -1", it is the keyword.
static bool open_step(TSLexer *lexer) {
    for (const char *word = "step"; *word; word++) {
        if (lexer->lookahead != *word) return false;
        advance(lexer);
    }
    if (is_word(lexer->lookahead)) return false;
    lexer->mark_end(lexer);
    while (is_blank(lexer->lookahead)) advance(lexer);
    if (lexer->lookahead == '-' || lexer->lookahead == '"') return true;
    if (lexer->lookahead == '!') {
        advance(lexer);
        return lexer->lookahead != '=';
    }
    bool same = true;
    unsigned length = 0;
    for (const char *word = "step"; is_word(lexer->lookahead); length++) {
        same = same && length < 4 && lexer->lookahead == word[length];
        advance(lexer);
    }
    return length > 0 && !(same && length == 4);
}

bool tree_sitter_clk_external_scanner_scan(void *payload, TSLexer *lexer, const bool *valid_symbols) {
    (void)payload;
    if (valid_symbols[ERROR_SENTINEL]) return false;
    if (valid_symbols[BLOCK_COMMENT_REST]) {
        lexer->result_symbol = BLOCK_COMMENT_REST;
        return block_comment_rest(lexer);
    }
    if (valid_symbols[STRING_CONTENT]) {
        lexer->result_symbol = STRING_CONTENT;
        return string_content(lexer);
    }
    if (valid_symbols[OPEN_STEP]) {
        while (is_blank(lexer->lookahead)) lexer->advance(lexer, true);
        if (lexer->lookahead == 's') {
            lexer->result_symbol = OPEN_STEP;
            return open_step(lexer);
        }
    }
    if (valid_symbols[NEWLINE]) {
        lexer->result_symbol = NEWLINE;
        return newline(lexer);
    }
    return false;
}
