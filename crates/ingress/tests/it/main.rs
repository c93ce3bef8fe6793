//! Tests of the translation: objects in, the text of a tree out.

mod gateway;
