//! A builder that keeps types, spans and blocks in step.
