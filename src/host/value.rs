//! What a script's variable can hold.
