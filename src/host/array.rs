//! Arrays with value semantics: a shape, an element layout and shared bytes that are copied when written.
