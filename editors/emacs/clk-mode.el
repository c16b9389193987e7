;;; clk-mode.el --- Major mode for the Clk GPU language -*- lexical-binding: t; -*-

;; Version: 0.1.0
;; Package-Requires: ((emacs "27.1"))
;; Keywords: languages
;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Commentary:

;; Highlighting, indentation, navigation, imenu, compilation and the
;; language server (with Eglot or lsp-mode) for Clk.  `cargo test --test
;; editors' generates the lists of words from the compiler's tables.

;;; Code:

(require 'compile)
(require 'rx)
(require 'seq)

(defgroup clk nil
  "Support for the Clk language."
  :group 'languages)

(defcustom clk-program "clk"
  "The `clk' program."
  :type 'string)

(defcustom clk-serve-cuda nil
  "Whether lsp-mode starts the language server for CUDA files too.
Other servers for these files, such as clangd, stay in use."
  :type 'boolean)

(defcustom clk-indent-offset 4
  "Number of columns per indentation level."
  :type 'integer
  :safe #'integerp)

;; generated: control
(defconst clk-control
  '("if" "else" "for" "in" "while" "loop" "break" "continue" "return" "import")
  "Words of Clk: control.")
;; generated end

;; generated: declarations
(defconst clk-declarations
  '("kernel" "fn" "struct" "const" "let" "var" "shared" "test" "bench" "out" "inout")
  "Words of Clk: declarations.")
;; generated end

;; generated: constants
(defconst clk-constants
  '("true" "false")
  "Words of Clk: constants.")
;; generated end

;; generated: types
(defconst clk-types
  '("bool" "i8" "i16" "i32" "i64" "u8" "u16" "u32" "u64" "f16" "bf16" "f32" "f64" "i8x2" "i8x3"
    "i8x4" "i16x2" "i16x3" "i16x4" "i32x2" "i32x3" "i32x4" "i64x2" "i64x3" "i64x4" "u8x2" "u8x3"
    "u8x4" "u16x2" "u16x3" "u16x4" "u32x2" "u32x3" "u32x4" "u64x2" "u64x3" "u64x4" "f16x2" "f16x3"
    "f16x4" "bf16x2" "bf16x3" "bf16x4" "f32x2" "f32x3" "f32x4" "f64x2" "f64x3" "f64x4" "str")
  "Words of Clk: types.")
;; generated end

;; generated: functions
(defconst clk-functions
  '("min" "max" "abs" "clamp" "sign" "sqrt" "fma" "floor" "ceil" "round" "trunc" "fract" "copysign"
    "isnan" "isinf" "isfinite" "rsqrt" "cbrt" "exp" "exp2" "exp10" "expm1" "log" "log2" "log10"
    "log1p" "sin" "cos" "tan" "asin" "acos" "atan" "atan2" "sinh" "cosh" "tanh" "asinh" "acosh"
    "atanh" "hypot" "erf" "erfc" "lgamma" "tgamma" "pow" "tf32" "popcount" "clz" "ctz"
    "reverse_bits" "mul_hi" "wrapping_add" "wrapping_sub" "wrapping_mul" "wrapping_neg"
    "saturating_add" "saturating_sub" "select" "ceil_div" "bitcast" "len" "shape" "assert" "print"
    "dot" "cross" "length" "normalize" "barrier" "barrier_any" "barrier_all" "barrier_count"
    "warp_barrier" "grid_barrier" "fence" "fence_block" "atomic_add" "atomic_sub" "atomic_min"
    "atomic_max" "atomic_and" "atomic_or" "atomic_xor" "atomic_exchange" "atomic_compare_exchange"
    "atomic_load" "atomic_store" "shuffle" "shuffle_up" "shuffle_down" "shuffle_xor" "ballot"
    "warp_any" "warp_all" "warp_reduce_add" "warp_reduce_min" "warp_reduce_max" "warp_reduce_and"
    "warp_reduce_or" "warp_reduce_xor" "match_any" "mma" "cached" "streaming" "linspace" "arange"
    "zeros" "ones" "full" "eye" "random" "random_normal" "random_int" "sum" "prod" "mean" "argmin"
    "argmax" "all" "any" "close" "cumsum" "reshape" "transpose" "concat" "stack" "sort" "argsort"
    "einsum" "flip" "split" "lines" "join" "trim" "find" "contains" "starts_with" "ends_with"
    "replace" "upper" "lower" "parse" "load" "save" "keys" "read_text" "write_text" "image" "heat"
    "plot" "scatter" "bar" "hist" "seed_random" "exit" "gpus" "shard" "gather" "rank" "ranks"
    "all_reduce" "all_gather" "reduce_scatter" "broadcast" "send" "receive" "grad" "value_and_grad"
    "vjp" "jvp" "jacobian" "hessian" "gradcheck" "no_grad" "with_grad")
  "Words of Clk: functions.")
;; generated end

;; generated: variables
(defconst clk-variables
  '("thread_idx" "block_idx" "block_dim" "grid_dim" "global_idx" "lane_idx" "warp_idx" "warp_size"
    "args")
  "Words of Clk: variables.")
;; generated end

(defvar clk-mode-syntax-table
  (let ((table (make-syntax-table)))
    (modify-syntax-entry ?_ "w" table)
    (modify-syntax-entry ?\" "\"" table)
    (modify-syntax-entry ?\\ "\\" table)
    (modify-syntax-entry ?/ ". 124b" table)
    (modify-syntax-entry ?* ". 23n" table)
    (modify-syntax-entry ?\n "> b" table)
    (dolist (mark '(?+ ?- ?% ?& ?| ?^ ?! ?< ?> ?= ?@ ?. ?' ?#))
      (modify-syntax-entry mark "." table))
    table)
  "Syntax table of `clk-mode'.")

(defconst clk-font-lock-keywords
  `((,(rx bos "#!" (* nonl)) 0 font-lock-comment-face t)
    (,(rx bow (group (or "fn" "kernel")) (+ blank) (group (any "A-Za-z_") (* word)))
     (1 font-lock-keyword-face) (2 font-lock-function-name-face))
    (,(rx bow (group "struct") (+ blank) (group (any "A-Za-z_") (* word)))
     (1 font-lock-keyword-face) (2 font-lock-type-face))
    (,(rx bow (group (or "let" "var" "shared" "for" "const")) (+ blank) (group (any "A-Za-z_") (* word)))
     (1 font-lock-keyword-face) (2 font-lock-variable-name-face))
    ;; Contextual keywords.
    (,(rx bow (group (or "threads" "grid" "block")) (* blank) "(") 1 font-lock-keyword-face)
    (,(rx bow (group (or "assume" "expect" "tune")) (+ blank) (any "A-Za-z0-9_(!")) 1 font-lock-keyword-face)
    (,(rx bow (group (or "batch" "time")) (* blank) "{") 1 font-lock-keyword-face)
    (,(rx bol (* blank) (group "on") (+ blank) (any "A-Za-z_\"")) 1 font-lock-keyword-face)
    (,(rx (any "A-Za-z0-9_)]") (+ blank) (group "step") (* blank) (any "A-Za-z0-9_(-")) 1 font-lock-keyword-face)
    (,(rx bow (group "as") (+ blank) (any "A-Za-z_")) 1 font-lock-keyword-face)
    (,(rx "#" (or "unroll" "nounroll") eow) . font-lock-preprocessor-face)
    (,(regexp-opt (append clk-control clk-declarations) 'words) . font-lock-keyword-face)
    (,(regexp-opt clk-constants 'words) . font-lock-constant-face)
    (,(regexp-opt clk-types 'words) . font-lock-type-face)
    (,(concat "\\(?:^\\|[^.]\\)" (regexp-opt clk-functions 'words) "[[:blank:]]*(") 1 font-lock-builtin-face)
    (,(regexp-opt clk-variables 'words) . font-lock-builtin-face)
    (,(rx bow (group (any "A-Za-z_") (* word)) (* blank) (or "(" "<<<")) 1 font-lock-function-name-face)
    (,(rx bow (any "A-Z") (* (any "A-Z0-9_")) eow) . font-lock-constant-face)
    ;; Interpolated values in strings.
    (clk--match-interpolation 0 font-lock-variable-name-face t))
  "Highlighting of `clk-mode'.")

(defun clk--match-interpolation (limit)
  "Find the next `{value}' in a string before LIMIT."
  (let (found)
    (while (and (not found) (re-search-forward "{[^{}\"\n]+}" limit t))
      (let ((start (match-beginning 0)))
        (setq found (and (nth 3 (save-match-data (save-excursion (syntax-ppss start))))
                         (not (eq (char-before start) ?{))))))
    found))

(defun clk--syntactic-face (state)
  "Return the face of the comment or string at the parser STATE."
  (cond ((nth 3 state) font-lock-string-face)
        ((save-excursion (goto-char (nth 8 state)) (looking-at "///\\(?:[^/]\\|$\\)")) font-lock-doc-face)
        (t font-lock-comment-face)))

;; Indentation

(defconst clk--continuation
  (rx bol (* blank)
      (or "." "*" "%" "@" "&" "|" "^" "+" "<" ">" "=" "!=" (seq "/" (not (any "/*")))
          (seq (or "threads" "grid" "block") (* blank) "(")
          (seq (or "assume" "expect" "tune") (+ blank) (any "A-Za-z0-9_(!"))))
  "Matches a line that continues the statement of the previous line.")

(defconst clk--closer
  (rx (or (any "])}") (seq ">" (or (any "({") (seq (* blank) eol)))))
  "Matches the start of a line that begins with a closing bracket.")

(defun clk--continues-p ()
  "Return non-nil if the line at point continues the previous statement."
  (save-excursion
    (beginning-of-line)
    (and (not (looking-at-p (concat "[[:blank:]]*" clk--closer)))
         (or (looking-at-p clk--continuation) (clk--assumes-p)))))

(defun clk--assumes-p ()
  "Return non-nil if the line at point continues a list of assumptions."
  (save-excursion
    (let (found)
      (while (and (not found) (not (bobp)) (progn (forward-line -1) (looking-at-p ".*,[[:blank:]]*$")))
        (setq found (looking-at-p "[[:blank:]]*assume[[:blank:]]")))
      found)))

(defconst clk--syntax-propertize
  (syntax-propertize-rules
   ("^[[:blank:]]*\\(?:kernel\\|fn\\|struct\\)[[:blank:]]+\\w+\\(<\\)[[:blank:]]*$" (1 "(>"))
   ("^[[:blank:]]*\\(>\\)\\(?:[({]\\|[[:blank:]]*$\\)" (1 ")<")))
  "Marks the angle brackets around multi-line generic parameters as brackets.")

(defun clk--indentation ()
  "Return the column at which the line at point should begin."
  (save-excursion
    (back-to-indentation)
    (let* ((state (syntax-ppss))
           (open (nth 1 state)))
      (cond
       ((nth 3 state) (current-indentation))
       ((nth 4 state) (save-excursion (goto-char (nth 8 state)) (1+ (current-column))))
       ((null open)
        (if (and (clk--continues-p) (not (bobp))) clk-indent-offset 0))
       (t
        (let ((base (save-excursion
                      (goto-char open)
                      (if (eq (char-after) ?{) (clk--statement-indentation) (current-indentation))))
              (closer (looking-at-p clk--closer)))
          (+ base
             (if closer 0 clk-indent-offset)
             (if (and (not closer) (eq (char-after open) ?{) (clk--continues-p)) clk-indent-offset 0))))))))

(defun clk--statement-indentation ()
  "Return the column of the statement that contains the line at point."
  (let ((start (point)))
    (back-to-indentation)
    ;; A line with `) {', or a continuation, belongs to an earlier line.
    (let (done)
      (while (not done)
        (cond ((and (looking-at-p clk--closer) (< (point) start))
               (let ((partner (nth 1 (syntax-ppss))))
                 (if partner (progn (goto-char partner) (back-to-indentation)) (setq done t))))
              ((and (clk--continues-p) (not (bobp)) (not (eq (char-after) ?.)))
               (forward-line -1)
               (back-to-indentation))
              (t (setq done t)))))
    (current-column)))

(defun clk-indent-line ()
  "Indent the line at point."
  (interactive)
  (let ((column (clk--indentation))
        (inside (> (current-column) (current-indentation))))
    (if inside (save-excursion (indent-line-to column)) (indent-line-to column))))

;; Running

(defun clk--compile (subcommand)
  "Run `clk SUBCOMMAND' on the file of this buffer."
  (unless buffer-file-name (user-error "This buffer has no file"))
  (save-buffer)
  (compile (mapconcat #'shell-quote-argument
                      (list clk-program subcommand "--ascii" buffer-file-name) " ")))

(defun clk-run () "Run the file." (interactive) (clk--compile "run"))
(defun clk-check () "Report the errors of the file." (interactive) (clk--compile "check"))
(defun clk-test () "Run the tests of the file." (interactive) (clk--compile "test"))
(defun clk-bench () "Run the benchmarks of the file." (interactive) (clk--compile "bench"))
(defun clk-profile () "Profile the kernels of the file." (interactive) (clk--compile "profile"))

(add-to-list 'compilation-error-regexp-alist-alist
             '(clk "^[[:blank:]]*\\(?:╭─\\|,-\\)\\[ \\(.+\\):\\([0-9]+\\):\\([0-9]+\\) \\]$" 1 2 3))
(add-to-list 'compilation-error-regexp-alist 'clk)

(defvar clk-mode-map
  (let ((map (make-sparse-keymap)))
    (define-key map (kbd "C-c C-c") #'clk-run)
    (define-key map (kbd "C-c C-k") #'clk-check)
    (define-key map (kbd "C-c C-t") #'clk-test)
    (define-key map (kbd "C-c C-b") #'clk-bench)
    (define-key map (kbd "C-c C-p") #'clk-profile)
    map)
  "Keys of `clk-mode'.")

(defun clk--completion ()
  "Complete the words of the language.
A language server adds the names in scope."
  (let ((bounds (bounds-of-thing-at-point 'symbol)))
    (when (and bounds (not (nth 8 (syntax-ppss))))
      (list (car bounds) (cdr bounds)
            (append clk-control clk-declarations clk-constants clk-types clk-functions clk-variables)
            :exclusive 'no))))

;;;###autoload
(define-derived-mode clk-mode prog-mode "Clk"
  "Major mode for Clk programs.

\\{clk-mode-map}"
  (setq-local comment-start "// ")
  (setq-local comment-end "")
  (setq-local comment-start-skip "\\(?://+\\|/\\*+\\)\\s *")
  (setq-local font-lock-defaults
              '(clk-font-lock-keywords nil nil nil (font-lock-syntactic-face-function . clk--syntactic-face)))
  (setq-local syntax-propertize-function clk--syntax-propertize)
  (setq-local indent-line-function #'clk-indent-line)
  (setq-local indent-tabs-mode nil)
  (setq-local electric-indent-chars (append "{}()[]" electric-indent-chars))
  (setq-local beginning-of-defun-function #'clk-beginning-of-defun)
  (setq-local imenu-generic-expression
              '(("Kernels" "^kernel +\\([A-Za-z_][A-Za-z0-9_]*\\)" 1)
                ("Functions" "^fn +\\([A-Za-z_][A-Za-z0-9_]*\\)" 1)
                ("Structures" "^struct +\\([A-Za-z_][A-Za-z0-9_]*\\)" 1)
                ("Tests" "^test +\"\\([^\"\n]*\\)\"" 1)
                ("Benches" "^bench +\"\\([^\"\n]*\\)\"" 1)))
  (add-hook 'completion-at-point-functions #'clk--completion nil t))

(defun clk-beginning-of-defun (&optional count)
  "Go to the beginning of the item, COUNT times; backwards if negative."
  (re-search-backward "^\\(?:kernel\\|fn\\|struct\\|test\\|bench\\)\\_>" nil 'move (or count 1)))

;;;###autoload
(add-to-list 'auto-mode-alist '("\\.clk\\'" . clk-mode))
;;;###autoload
(add-to-list 'interpreter-mode-alist '("clk" . clk-mode))

(defvar eglot-server-programs)
(with-eval-after-load 'eglot
  (add-to-list 'eglot-server-programs `(clk-mode . ,(lambda (&rest _) (list clk-program "lsp")))))

(declare-function lsp-register-client "lsp-mode")
(declare-function make-lsp-client "lsp-mode")
(declare-function lsp-stdio-connection "lsp-mode")
(declare-function lsp-activate-on "lsp-mode")
(defvar lsp-language-id-configuration)
(with-eval-after-load 'lsp-mode
  (add-to-list 'lsp-language-id-configuration '(clk-mode . "clk"))
  (lsp-register-client
   (make-lsp-client :new-connection (lsp-stdio-connection (lambda () (list clk-program "lsp")))
                    :activation-fn (lsp-activate-on "clk")
                    :server-id 'clk))
  (lsp-register-client
   (make-lsp-client :new-connection (lsp-stdio-connection (lambda () (list clk-program "lsp")))
                    :activation-fn (lambda (file &optional _mode)
                                     (and clk-serve-cuda (string-match-p "\\.cuh?\\'" file)))
                    :add-on? t
                    :server-id 'clk-cuda)))

(provide 'clk-mode)
;;; clk-mode.el ends here
