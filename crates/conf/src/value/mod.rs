//! Typed values of arguments. Each type parses itself from a word and says what is wrong in nginx's phrase.

pub mod template;
