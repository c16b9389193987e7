;;; clk-mode-tests.el --- Tests of clk-mode -*- lexical-binding: t; -*-

;;; Commentary:

;; emacs --batch -L editors/emacs -l clk-mode-tests.el -f ert-run-tests-batch-and-exit

;;; Code:

(require 'ert)
(require 'imenu)
(require 'clk-mode)

(defconst clk-tests-folder (file-name-directory (or load-file-name buffer-file-name)))
(defconst clk-tests-root (expand-file-name "../../" clk-tests-folder))

(defmacro clk-tests-with (text &rest body)
  "Evaluate BODY in a buffer of `clk-mode' with TEXT, highlighted."
  (declare (indent 1))
  `(with-temp-buffer
     (insert ,text)
     (clk-mode)
     (font-lock-ensure)
     (goto-char (point-min))
     ,@body))

(defun clk-tests-face (text &optional count)
  "Return the face at the COUNT-th occurrence of TEXT in the buffer."
  (goto-char (point-min))
  (should (search-forward text nil t (or count 1)))
  (let ((face (get-text-property (match-beginning 0) 'face)))
    (if (consp face) (car face) face)))

(defun clk-tests-expect (&rest pairs)
  "Check the faces of the first occurrences of texts.
PAIRS alternates texts and their expected faces."
  (while pairs
    (let ((text (pop pairs)) (face (pop pairs)))
      (should (equal (list text face) (list text (clk-tests-face text)))))))

(ert-deftest clk-highlights-items ()
  (clk-tests-with "kernel scale(x: [f32; N], out y: [f32; N]) threads(i: N) {
    y[i] = if i < 3 { sqrt(x[i]) } else { thread_idx.x }
    #unroll(4)
    for k in 0..10 step 2 { work() }
}
struct Particle { mass: f64 }
const WIDTH: i32 = 4
on sim { batch { } }
import std.nn as n
let ok = true"
    (clk-tests-expect
     "kernel" 'font-lock-keyword-face
     "scale" 'font-lock-function-name-face
     "f32" 'font-lock-type-face
     "out" 'font-lock-keyword-face
     "threads" 'font-lock-keyword-face
     "if" 'font-lock-keyword-face
     "sqrt" 'font-lock-builtin-face
     "thread_idx" 'font-lock-builtin-face
     "#unroll" 'font-lock-preprocessor-face
     "for" 'font-lock-keyword-face
     "step" 'font-lock-keyword-face
     "work" 'font-lock-function-name-face
     "struct" 'font-lock-keyword-face
     "Particle" 'font-lock-type-face
     "WIDTH" 'font-lock-variable-name-face
     "on sim" 'font-lock-keyword-face
     "batch" 'font-lock-keyword-face
     "as n" 'font-lock-keyword-face
     "ok" 'font-lock-variable-name-face
     "true" 'font-lock-constant-face)))

(ert-deftest clk-words-in-their-places-only ()
  (clk-tests-with "f(grid + block, step, on, batch)"
    (dolist (word '("grid" "block" "step" "on" "batch"))
      (should-not (clk-tests-face word)))))

(ert-deftest clk-highlights-comments-and-strings ()
  (clk-tests-with "/// doc\n// plain\n/* a /* b */ inner */ let s = \"text {value:.3} {{braces}} // end\"\n"
    (clk-tests-expect
     "doc" 'font-lock-doc-face
     "plain" 'font-lock-comment-face
     "inner" 'font-lock-comment-face
     "let" 'font-lock-keyword-face
     "text" 'font-lock-string-face
     "value" 'font-lock-variable-name-face
     "braces" 'font-lock-string-face
     "end" 'font-lock-string-face)))

(ert-deftest clk-indents-as-the-programs-are-written ()
  (let ((count 0))
    (dolist (folder '("examples" "stdlib"))
      (dolist (file (directory-files (expand-file-name folder clk-tests-root) t "\\.clk\\'"))
        (with-temp-buffer
          (insert-file-contents file)
          (clk-mode)
          (let ((before (split-string (buffer-string) "\n"))
                (number 0))
            (let ((inhibit-message t)) (indent-region (point-min) (point-max)))
            (dolist (line (split-string (buffer-string) "\n"))
              (setq number (1+ number))
              (should (equal (list (file-name-nondirectory file) number (pop before))
                             (list (file-name-nondirectory file) number line))))))
        (setq count (1+ count))))
    (should (> count 30))))

(ert-deftest clk-finds-items ()
  (clk-tests-with "kernel a() threads(i: 1) { }\n\nfn b() {\n    1\n}\n\nstruct C { }\ntest \"d e\" { }\n"
    (let ((index (imenu--make-index-alist t)))
      (should (assoc "a" (cdr (assoc "Kernels" index))))
      (should (assoc "b" (cdr (assoc "Functions" index))))
      (should (assoc "C" (cdr (assoc "Structures" index))))
      (should (assoc "d e" (cdr (assoc "Tests" index)))))
    (search-forward "    1")
    (beginning-of-defun)
    (should (looking-at-p "fn b"))))

(ert-deftest clk-comments-regions ()
  (clk-tests-with "let a = 1\n"
    (comment-region (point-min) (point-max))
    (should (equal (buffer-string) "// let a = 1\n"))))

(ert-deftest clk-opens-files ()
  (should (eq 'clk-mode (assoc-default "a/b.clk" auto-mode-alist #'string-match-p)))
  (should (eq 'clk-mode (cdr (assoc "clk" interpreter-mode-alist)))))

(ert-deftest clk-knows-its-messages ()
  (let ((regexp (nth 1 (assq 'clk compilation-error-regexp-alist-alist))))
    (dolist (line '("   ,-[ a b.clk:2:7 ]" "   ╭─[ a b.clk:2:7 ]"))
      (should (string-match regexp line))
      (should (equal '("a b.clk" "2" "7") (mapcar (lambda (n) (match-string n line)) '(1 2 3)))))))

(ert-deftest clk-completes-words ()
  (clk-tests-with "let x = thread_i"
    (goto-char (point-max))
    (let ((found (clk--completion)))
      (should (member "thread_idx" (nth 2 found)))
      (should (equal "thread_i" (buffer-substring (nth 0 found) (nth 1 found)))))))

(provide 'clk-mode-tests)
;;; clk-mode-tests.el ends here
