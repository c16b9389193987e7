/**
 * The grammar of Clk for tree-sitter. It accepts what `grammar/clk.ebnf` describes; where the compiler refuses more
 * (chained comparisons, assignments to what is no place), it is lenient.
 *
 * Every rule of expressions exists twice: in a head (`if`, `while`, `for`, `on`, rates of a bench) a `{` begins the body, so
 * struct literals, blocks and `time` are left out there. Both give the same nodes.
 */

/* eslint-disable arrow-parens */
/* global grammar, seq, choice, repeat, repeat1, optional, prec, token, field, alias */

// Precedence levels, lowest first.
const LEVEL = {
  range: 1,
  or: 2,
  and: 3,
  comparison: 4,
  bitOr: 5,
  bitXor: 6,
  bitAnd: 7,
  shift: 8,
  sum: 9,
  product: 10,
  unary: 11,
  power: 12,
  postfix: 13,
};

const LOGIC = [
  ['||', LEVEL.or],
  ['&&', LEVEL.and],
  ...['==', '!=', '<', '<=', '>', '>='].map(op => [op, LEVEL.comparison]),
];

const ARITHMETIC = [
  ['|', LEVEL.bitOr],
  ['^', LEVEL.bitXor],
  ['&', LEVEL.bitAnd],
  ['<<', LEVEL.shift],
  ['>>', LEVEL.shift],
  ['+', LEVEL.sum],
  ['-', LEVEL.sum],
  ['*', LEVEL.product],
  ['/', LEVEL.product],
  ['%', LEVEL.product],
  ['@', LEVEL.product],
];

const ASSIGNMENTS = ['=', '+=', '-=', '*=', '/=', '%=', '**=', '@=', '&=', '|=', '^=', '<<=', '>>='];

// `cargo test --test repository editors::` compares the two lists below with the compiler's tables.
const KEYWORDS = [
  'kernel', 'fn', 'struct', 'const', 'let', 'var', 'shared', 'if', 'else', 'for', 'in', 'while', 'loop', 'break', 'continue',
  'return', 'import', 'test', 'bench', 'out', 'inout', 'true', 'false',
];
const CONTEXTUAL = ['threads', 'grid', 'block', 'step', 'on', 'batch', 'time', 'as', 'assume', 'expect', 'tune'];

const listed = (rule) => optional(seq(rule, repeat(seq(',', rule)), optional(',')));
const listed1 = (rule) => seq(rule, repeat(seq(',', rule)), optional(','));

/** The rules of expressions. In a head, such as the condition of an `if`, a `{` begins the body instead of a struct value. */
function expressions(head) {
  const name = (rule) => head ? `_head${rule}` : rule;
  const of = ($, rule) => $[name(rule)];
  // The head version of a rule produces the same node type as the ordinary version.
  const as = ($, rule) => head ? alias($[`_head_${rule}`], $[rule]) : $[rule];
  const rule = (rule) => head ? `_head_${rule}` : rule;
  const binary = ($, table, operand) => choice(...table.map(([operator, level]) =>
    prec.left(level, seq(field('left', operand), field('operator', operator), field('right', operand)))));

  return {
    [name('_expression')]: $ => choice(as($, 'range_expression'), of($, '_logic')),

    // `..` may omit its end, `..=` may not. The scanner decides whether a `step` after `..` is the keyword.
    [rule('range_expression')]: $ => prec.right(LEVEL.range, seq(
      optional(field('start', of($, '_logic'))),
      choice(
        seq(field('operator', '..'), alias($._open_step, 'step'), field('step', of($, '_logic'))),
        seq(
          choice(
            seq(field('operator', '..'), optional(field('end', of($, '_logic')))),
            seq(field('operator', '..='), field('end', of($, '_logic'))),
          ),
          optional(seq('step', field('step', of($, '_logic')))),
        ),
      ),
    )),

    [name('_logic')]: $ => choice(
      head ? alias($._head_logic_expression, $.binary_expression) : alias($._logic_expression, $.binary_expression),
      of($, '_value'),
    ),
    [name('_logic_expression')]: $ => binary($, LOGIC, of($, '_logic')),

    // Operators with a higher precedence than comparisons.
    [name('_value')]: $ => choice(
      head ? alias($._head_arithmetic, $.binary_expression) : alias($._arithmetic, $.binary_expression),
      as($, 'unary_expression'),
      of($, '_postfix'),
    ),
    [name('_arithmetic')]: $ => choice(
      binary($, ARITHMETIC, of($, '_value')),
      prec.right(LEVEL.power, seq(
        field('left', of($, '_value')), field('operator', '**'), field('right', of($, '_value')),
      )),
    ),
    [rule('unary_expression')]: $ => prec(LEVEL.unary, seq(
      field('operator', choice('-', '!')), field('operand', of($, '_value')),
    )),

    [name('_postfix')]: $ => choice(
      as($, 'field_expression'),
      as($, 'index_expression'),
      as($, 'call_expression'),
      as($, 'launch_expression'),
      $._name,
      $.integer,
      $.float,
      $.boolean,
      $.string,
      $.parenthesized_expression,
      $.tuple_expression,
      $.array_expression,
      $.if_expression,
      ...(head ? [] : [$.struct_expression, $.block, $.time_expression]),
    ),
    [rule('field_expression')]: $ => prec(LEVEL.postfix, seq(
      field('value', of($, '_postfix')), '.', field('field', choice($._field_name, $.integer)),
    )),
    [rule('index_expression')]: $ => prec(LEVEL.postfix, seq(
      field('value', of($, '_postfix')), '[', listed1(field('index', $._expression)), ']',
    )),
    [rule('call_expression')]: $ => prec(LEVEL.postfix, seq(
      field('function', of($, '_postfix')), field('arguments', $.arguments),
    )),
    [rule('launch_expression')]: $ => prec(LEVEL.postfix, seq(
      field('kernel', of($, '_postfix')),
      '<<<', field('grid', $._expression), ',', field('block', $._expression), '>>>',
      field('arguments', $.arguments),
    )),
  };
}

module.exports = grammar({
  name: 'clk',

  word: $ => $.identifier,

  externals: $ => [
    $._newline,
    $._block_comment_rest,
    $.string_content,
    $._open_step,
    // No rule uses it, so it is valid only while the parser recovers from an error.
    $._error_sentinel,
  ],

  extras: $ => [/[\s\uFEFF]/, $.line_comment, $.block_comment, $.doc_comment],

  supertypes: $ => [$._item, $._statement, $._type],

  inline: $ => [$._end, $._field_name, $._type_name, $._parameter_name],

  rules: {
    source_file: $ => seq(
      optional($.shebang),
      repeat(choice(
        seq(choice($._item_line, $._statement_line), $._end),
        seq(choice($._item, $._statement), optional($._newline)),
        ';',
      )),
      optional(choice($._item_line, $._statement_line)),
    ),

    _end: $ => choice($._newline, ';'),

    shebang: _ => /#![^\n]*/,

    // Items. An item that ends with a `}` needs no newline after it.

    _item: $ => choice($.struct_item, $.function_item, $.kernel_item, $.test_item, $.bench_item),
    _item_line: $ => choice($.const_item, $.import_item),

    const_item: $ => seq(
      'const', field('name', $._name), optional(seq(':', field('type', $._type))), '=', field('value', $._expression),
    ),

    struct_item: $ => seq('struct', field('name', $._type_name), field('body', $.field_list)),
    field_list: $ => seq(
      '{', repeat(seq($.field, choice(',', $._newline, ';'))), optional($.field), '}',
    ),
    field: $ => seq(field('name', $._field_name), ':', field('type', $._type)),

    function_item: $ => seq(
      'fn', field('name', $._name), optional(field('generics', $.generics)), field('parameters', $.parameters),
      optional(seq('->', field('result', $._type))), field('body', $.block),
    ),

    kernel_item: $ => seq(
      'kernel', field('name', $._name), optional(field('generics', $.generics)), field('parameters', $.parameters),
      field('geometry', $.geometry), repeat(choice($.assume_clause, $.expect_clause, $.tune_clause)), field('body', $.block),
    ),
    expect_clause: $ => seq('expect', $._head_expression, repeat(seq(',', $._head_expression))),
    tune_clause: $ => seq('tune', $.tuned_constant, repeat(seq(',', $.tuned_constant))),
    tuned_constant: $ => seq(field('name', $._name), 'in', field('values', $._head_expression)),
    assume_clause: $ => seq('assume', $._head_expression, repeat(seq(',', $._head_expression))),
    geometry: $ => repeat1(choice($.threads_clause, $.grid_clause, $.block_clause)),
    threads_clause: $ => seq('threads', '(', listed($.thread_index), ')'),
    thread_index: $ => seq(field('name', $._name), ':', field('extent', $._expression)),
    grid_clause: $ => seq('grid', '(', listed($._expression), ')'),
    block_clause: $ => seq('block', '(', listed($._expression), ')'),

    generics: $ => seq('<', listed1(choice($.type_parameter, $.const_parameter, $.function_parameter)), '>'),
    type_parameter: $ => seq(
      field('name', $._type_name), optional(seq(':', field('bound', $._type_name))),
    ),
    const_parameter: $ => seq(
      'const', field('name', $._name), ':', field('type', $._type), optional(seq('=', field('default', $._value))),
    ),
    function_parameter: $ => seq(
      field('name', $._parameter_name), ':', field('type', $.function_type), optional(seq('=', field('default', $._value))),
    ),

    parameters: $ => seq('(', listed($.parameter), ')'),
    parameter: $ => seq(
      optional(field('access', choice('out', 'inout'))), field('name', $._name), ':', field('type', $._type),
      optional(seq('=', field('default', $._expression))),
    ),

    import_item: $ => seq(
      'import',
      field('source', choice($.path, $.string)),
      optional(choice(
        seq('as', field('alias', $._name)),
        seq('.', $.import_list),
      )),
    ),
    path: $ => choice($._name, seq($.path, '.', $._name)),
    import_list: $ => seq('{', listed($.imported), '}'),
    imported: $ => seq(field('name', $._name), optional(seq('as', field('alias', $._name)))),

    test_item: $ => seq('test', field('title', $.string), field('body', $.block)),
    bench_item: $ => seq('bench', field('title', $.string), listed($.rate), field('body', $.block)),
    rate: $ => seq(field('name', $._name), '=', field('value', $._head_expression)),

    // Types

    _type: $ => choice($.named_type, $.array_type, $.tuple_type, $.function_type, $.placed_type),
    named_type: $ => seq(
      $._type_name, repeat(seq('.', $._type_name)),
    ),
    array_type: $ => seq('[', field('element', $._type), ';', listed1(field('dimension', $._expression)), ']'),
    tuple_type: $ => seq('(', listed($._type), ')'),
    function_type: $ => prec.right(seq('fn', $.tuple_type, optional(seq('->', field('result', $._type))))),
    placed_type: $ => prec(1, seq(
      choice($.named_type, $.array_type, $.tuple_type, $.function_type), '@', field('place', $._name),
    )),

    // Statements

    block: $ => seq(
      '{',
      repeat(choice(
        seq($._statement_line, $._end),
        seq($._statement, optional($._newline)),
        ';',
      )),
      optional($._statement_line),
      '}',
    ),

    // Statements that end with a `}`.
    _statement: $ => choice(
      $.for_statement,
      $.while_statement,
      $.loop_statement,
      $.on_statement,
      $.batch_statement,
      prec(1, $.if_expression),
      prec(1, $.block),
    ),
    _statement_line: $ => choice(
      $.let_statement,
      $.var_statement,
      $.shared_statement,
      $.assignment,
      $.break_statement,
      $.continue_statement,
      $.return_statement,
      $._expression,
    ),

    let_statement: $ => seq(
      'let', field('pattern', $._pattern), optional(seq(':', field('type', $._type))), '=', field('value', $._expression),
    ),
    var_statement: $ => seq(
      'var', field('pattern', $._pattern),
      choice(
        seq(':', field('type', $._type), optional(seq('=', field('value', $._expression)))),
        seq('=', field('value', $._expression)),
      ),
    ),
    _pattern: $ => choice($._name, $.tuple_pattern),
    tuple_pattern: $ => seq('(', listed($._pattern), ')'),

    shared_statement: $ => seq('shared', field('name', $._name), ':', field('type', $._type)),

    assignment: $ => seq(
      field('left', $._postfix), field('operator', choice(...ASSIGNMENTS)), field('right', $._expression),
    ),

    break_statement: _ => 'break',
    continue_statement: _ => 'continue',
    return_statement: $ => seq('return', optional($._expression)),

    for_statement: $ => seq(
      optional($.hint),
      'for', field('variable', $._pattern), 'in', field('over', $._head_expression), field('body', $.block),
    ),
    while_statement: $ => seq(
      optional($.hint), 'while', field('condition', $._head_expression), field('body', $.block),
    ),
    loop_statement: $ => seq(optional($.hint), 'loop', field('body', $.block)),
    hint: $ => choice('#nounroll', seq('#unroll', optional(seq('(', $.integer, ')')))),

    on_statement: $ => seq('on', field('device', $._head_expression), field('body', $.block)),
    batch_statement: $ => prec(1, seq('batch', field('body', $.block))),

    // Expressions

    ...expressions(false),
    ...expressions(true),

    arguments: $ => seq('(', listed(choice($._expression, $.named_argument)), ')'),
    named_argument: $ => seq(
      field('name', choice($._name, alias(choice(...KEYWORDS), $.identifier))), '=', field('value', $._expression),
    ),

    parenthesized_expression: $ => seq('(', $._expression, ')'),
    tuple_expression: $ => seq('(', optional(seq($._expression, ',', listed($._expression))), ')'),
    array_expression: $ => seq('[', listed($._expression), ']'),

    struct_expression: $ => seq(
      field('type', choice(alias($.identifier, $.type_identifier), $.field_expression)),
      '{', listed($.field_value), '}',
    ),
    field_value: $ => seq(field('name', $._field_name), ':', field('value', $._expression)),

    if_expression: $ => seq(
      'if', field('condition', $._head_expression), field('consequence', $.block),
      optional(seq('else', field('alternative', choice($.block, $.if_expression)))),
    ),
    time_expression: $ => prec(1, seq('time', field('body', $.block))),

    // Strings. The scanner produces `string_content`, because it includes blanks.

    string: $ => seq(
      '"', repeat(choice($.string_content, $.escape_sequence, $.interpolation)), token.immediate('"'),
    ),
    escape_sequence: _ => token.immediate(choice('{{', '}}', /\\u\{[0-9A-Fa-f]*\}/, /\\[^\nu]/)),
    interpolation: $ => seq(
      alias(token.immediate('{'), '{'), $._expression, optional(seq(':', optional($.format))), '}',
    ),
    format: _ => token.immediate(prec(1, /[^}"\n]+/)),

    // Tokens

    // A contextual keyword is an ordinary name elsewhere.
    // If both are possible, the precedence selects the name: `on(x)` is a call, and the range `0..step step 2` has an end.
    _name: $ => prec(LEVEL.range + 1, choice($.identifier, alias(choice(...CONTEXTUAL), $.identifier))),
    _parameter_name: $ => choice($.identifier, alias(choice(...CONTEXTUAL), $.identifier)),
    _field_name: $ => choice(alias($.identifier, $.field_identifier), alias(choice(...CONTEXTUAL), $.field_identifier)),
    _type_name: $ => choice(alias($.identifier, $.type_identifier), alias(choice(...CONTEXTUAL), $.type_identifier)),
    identifier: _ => /[A-Za-z_][A-Za-z0-9_]*/,
    boolean: _ => choice('true', 'false'),
    integer: _ => token(seq(
      choice(/[0-9][0-9_]*/, /0x[0-9A-Fa-f_]+/, /0b[01_]+/),
      optional(/[iu](8|16|32|64)/),
    )),
    float: _ => token(choice(
      seq(/[0-9][0-9_]*\.[0-9][0-9_]*/, optional(/[eE][+-]?[0-9][0-9_]*/), optional(/(bf16|f16|f32|f64)/)),
      seq(/[0-9][0-9_]*/, /[eE][+-]?[0-9][0-9_]*/, optional(/(bf16|f16|f32|f64)/)),
      seq(/[0-9][0-9_]*/, /(bf16|f16|f32|f64)/),
    )),

    doc_comment: _ => token(/\/\/\/([^\/\n][^\n]*)?/),
    line_comment: _ => token(choice(/\/\/([^\/\n][^\n]*)?/, /\/\/\/\/[^\n]*/)),
    block_comment: $ => seq('/*', $._block_comment_rest),
  },
});
