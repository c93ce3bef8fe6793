//! A radix tree over location names: the cost of a lookup follows the length of the URI, not the number of locations.
//! Each node holds the bytes that lead to it; its children are found by their first byte. Used by `location` only.

/// The result of looking up a URI in the names of one level.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Lookup<'a, T> {
    /// An exact name.
    Exact(&'a T),
    /// The longest prefix.
    Prefix(&'a T),
    /// The URI lacks only the trailing slash of a name that asks for a redirect.
    Redirect(&'a T),
    /// None of them.
    Nothing,
}

/// The tree; a node's value is `T`.
#[derive(Debug, Clone)]
pub(super) struct Trie<T> {
    root: Node<T>,
}

#[derive(Debug, Clone)]
struct Node<T> {
    /// The bytes between the parent and this node.
    label: Box<[u8]>,
    /// First bytes of the children's labels, at the same index as the child; sorted by insertion only, `memchr` is
    /// faster than a search in the few bytes there are.
    first_bytes: Vec<u8>,
    children: Vec<Node<T>>,
    exact: Option<T>,
    prefix: Option<T>,
    auto_redirect: bool,
}

impl<T> Node<T> {
    fn new(label: &[u8]) -> Self {
        Self {
            label: label.into(),
            first_bytes: Vec::new(),
            children: Vec::new(),
            exact: None,
            prefix: None,
            auto_redirect: false,
        }
    }

    fn child(&self, first: u8) -> Option<usize> {
        memchr::memchr(first, &self.first_bytes)
    }

    /// Cuts the label at `at`, which lies inside it; the rest becomes an only child that takes all the values.
    fn split(&mut self, at: usize) {
        let mut head = Self::new(&self.label[..at]);
        head.first_bytes.push(self.label[at]);
        let mut tail = std::mem::replace(self, head);
        tail.label = tail.label[at..].into();
        self.children.push(tail);
    }
}

impl<T> Default for Trie<T> {
    fn default() -> Self {
        Self { root: Node::new(b"") }
    }
}

impl<T> Trie<T> {
    /// Adds an exact name; false if it is taken.
    pub(super) fn insert_exact(&mut self, name: &[u8], value: T, auto_redirect: bool) -> bool {
        let node = self.node(name);
        node.auto_redirect |= auto_redirect;
        node.exact.is_none() && node.exact.replace(value).is_none()
    }

    /// Adds a prefix; false if it is taken.
    pub(super) fn insert_prefix(&mut self, name: &[u8], value: T, auto_redirect: bool) -> bool {
        let node = self.node(name);
        node.auto_redirect |= auto_redirect;
        node.prefix.is_none() && node.prefix.replace(value).is_none()
    }

    /// The node at which `name` ends, made if need be.
    fn node(&mut self, mut name: &[u8]) -> &mut Node<T> {
        let mut node = &mut self.root;
        while let Some(&first) = name.first() {
            let index = if let Some(index) = node.child(first) {
                index
            } else {
                node.first_bytes.push(first);
                node.children.push(Node::new(name));
                node.children.len() - 1
            };
            node = &mut node.children[index];
            let common = node.label.iter().zip(name).take_while(|(left, right)| left == right).count();
            if common < node.label.len() {
                node.split(common);
            }
            name = &name[common..];
        }
        node
    }

    /// Looks up a URI.
    pub(super) fn lookup(&self, uri: &[u8]) -> Lookup<'_, T> {
        let mut longest = self.root.prefix.as_ref();
        let mut node = &self.root;
        let mut rest = uri;
        while let Some(&first) = rest.first() {
            let Some(child) = node.child(first).map(|index| &node.children[index]) else {
                return longest.map_or(Lookup::Nothing, Lookup::Prefix);
            };
            let Some(behind) = rest.strip_prefix(&*child.label) else {
                let lacks_slash = child.label.strip_suffix(b"/") == Some(rest);
                return redirect(child)
                    .filter(|_| lacks_slash)
                    .or(longest.map(Lookup::Prefix))
                    .unwrap_or(Lookup::Nothing);
            };
            rest = behind;
            node = child;
            longest = node.prefix.as_ref().or(longest);
        }
        if let Some(exact) = &node.exact {
            return Lookup::Exact(exact);
        }
        if let Some(prefix) = &node.prefix {
            return Lookup::Prefix(prefix);
        }
        let slash = node.child(b'/').map(|index| &node.children[index]).filter(|child| *child.label == *b"/");
        slash.and_then(redirect).or(longest.map(Lookup::Prefix)).unwrap_or(Lookup::Nothing)
    }
}

/// The redirect to a node's name, if it asks for one. As in nginx an exact name goes before a prefix.
fn redirect<T>(node: &Node<T>) -> Option<Lookup<'_, T>> {
    if !node.auto_redirect {
        return None;
    }
    node.exact.as_ref().or(node.prefix.as_ref()).map(Lookup::Redirect)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn trie(prefixes: &[&str]) -> Trie<usize> {
        let mut trie = Trie::default();
        for (index, prefix) in prefixes.iter().enumerate() {
            assert!(trie.insert_prefix(prefix.as_bytes(), index, prefix.ends_with('/')));
        }
        trie
    }

    #[test]
    fn a_name_that_splits_a_label_keeps_both() {
        let trie = trie(&["/images/large", "/images", "/image"]);
        assert_eq!(trie.lookup(b"/images/large/1"), Lookup::Prefix(&0));
        assert_eq!(trie.lookup(b"/images/l"), Lookup::Prefix(&1));
        assert_eq!(trie.lookup(b"/imagery"), Lookup::Prefix(&2));
        assert_eq!(trie.lookup(b"/imag"), Lookup::Nothing);
    }

    #[test]
    fn missing_slash_is_found_inside_and_after_a_label() {
        let trie = trie(&["/", "/user/", "/user/list/", "/us"]);
        assert_eq!(trie.lookup(b"/user"), Lookup::Redirect(&1));
        assert_eq!(trie.lookup(b"/user/list"), Lookup::Redirect(&2));
        assert_eq!(trie.lookup(b"/us"), Lookup::Prefix(&3));
    }

    proptest! {
        #[test]
        fn the_tree_agrees_with_a_plain_search(
            names in proptest::collection::hash_set("[ab/]{0,6}", 0..20),
            uri in "[ab/]{0,8}",
        ) {
            let names: Vec<_> = names.into_iter().collect();
            let mut trie = Trie::default();
            for (index, name) in names.iter().enumerate() {
                prop_assert!(trie.insert_prefix(name.as_bytes(), index, false));
            }
            let longest = (0..names.len()).filter(|&index| uri.starts_with(&names[index])).max_by_key(|&index| names[index].len());
            prop_assert_eq!(trie.lookup(uri.as_bytes()), longest.as_ref().map_or(Lookup::Nothing, Lookup::Prefix));
        }
    }
}
