//! The files that the rules check: tracked by git, or new and not ignored.

use crate::workspace::{Workspace, output_of};
use anyhow::{Context as _, Result};
use proc_macro2::{TokenStream, TokenTree};
use std::process::Command;

/// One Rust file, read and parsed once for all rules.
pub(super) struct Source {
    /// Relative to the workspace root, with `/`.
    pub(super) path: String,
    pub(super) text: String,
    /// The tokens, which also show what is inside macro calls.
    pub(super) tokens: TokenStream,
    pub(super) syntax: syn::File,
}

impl Source {
    pub(super) fn parse(path: &str, text: String) -> Result<Source> {
        let tokens: TokenStream = text.parse().map_err(|error| anyhow::anyhow!("{path}: {error}"))?;
        let syntax = syn::parse2(tokens.clone()).with_context(|| format!("{path} does not parse"))?;
        Ok(Source { path: path.to_owned(), text, tokens, syntax })
    }

    #[cfg(test)]
    pub(super) fn fixture(path: &str, text: &str) -> Source {
        Source::parse(path, text.to_owned()).unwrap()
    }
}

/// Paths of all tracked files, and of new ones that are not ignored, so that a rule reports before the commit.
pub(crate) fn tracked_files(workspace: &Workspace) -> Result<Vec<String>> {
    let mut git = Command::new("git");
    git.current_dir(&workspace.root).args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    Ok(output_of(&mut git)?.split('\0').filter(|path| !path.is_empty()).map(str::to_owned).collect())
}

/// Calls `look` with every run of sibling tokens, including groups and macro arguments.
pub(super) fn walk(tokens: TokenStream, look: &mut impl FnMut(&[TokenTree])) {
    let siblings: Vec<TokenTree> = tokens.into_iter().collect();
    look(&siblings);
    for token in siblings {
        if let TokenTree::Group(group) = token {
            walk(group.stream(), look);
        }
    }
}
