//! `ssi` on pages in pieces: the same result for any split into pieces, and no more than the limits allow. The first byte is the size of
//! the pieces.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rules::ssi::{Host, Output, Page, PageSettings, Shared};
use std::cell::RefCell;

/// Most output of a page: a value has 64 KB at most, and each command writes one.
const OUTPUT_BYTES_MAX: usize = 8 * 1024 * 1024;

#[derive(Default)]
struct Site(RefCell<usize>);

impl Host for Site {
    fn value(&self, name: &[u8], out: &mut Vec<u8>) -> bool {
        out.extend_from_slice(name);
        name.len() % 2 == 0
    }

    fn uri(&self) -> &[u8] {
        b"/dir/page"
    }

    fn set_time_format(&self, _: &[u8]) {}

    fn report(&self, _: &str) {
        *self.0.borrow_mut() += 1;
    }
}

fn run(page: &[u8], piece: usize) -> (Vec<u8>, usize) {
    let (site, mut shared) = (Site::default(), Shared::default());
    let mut state = Page::new(PageSettings { value_bytes_max: 64, silent: false });
    let mut out = Vec::new();
    for mut piece in page.chunks(piece.max(1)) {
        while let Some(output) = state.next(&mut piece, &mut shared, &site) {
            match output {
                Output::Nothing => {}
                Output::Text(text) => out.extend_from_slice(text),
                Output::Made(text) => out.extend_from_slice(&text),
                Output::Include(include) => out.extend_from_slice(format!("{include:?}").as_bytes()),
            }
            if out.len() > OUTPUT_BYTES_MAX {
                return (out, 0);
            }
        }
    }
    out.extend_from_slice(state.finish(&site));
    assert!(shared.held_bytes() <= 1024 * 1024);
    let reports = *site.0.borrow();
    (out, reports)
}

fuzz_target!(|input: &[u8]| {
    let Some((piece, page)) = input.split_first() else { return };
    let page = &page[..page.len().min(4096)];
    let whole = run(page, page.len());
    if whole.0.len() <= OUTPUT_BYTES_MAX {
        assert_eq!(run(page, usize::from(*piece)), whole);
    }
});
