//! The kernel's description of its own types (BTF, `Documentation/bpf/btf.rst`), as far as the program in `iterator` needs it:
//! where a few members of structures lie, and the number of one function. Pure: any bytes are read or refused, none panic.

/// What the program needs to know of this kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Layout {
    /// The type number of the function that an iterator over descriptors attaches to.
    pub(super) function: u32,
    /// Bytes from the beginning of each structure to its member.
    pub(super) file_inode: i16,
    pub(super) inode_mode: i16,
    pub(super) inode_number: i16,
    pub(super) task_process: i16,
}

/// The function's name.
const FUNCTION: &[u8] = b"bpf_iter_task_file";
/// Structures and their members, in the order of [`Layout`].
const MEMBERS: [(&[u8], &[u8]); 4] =
    [(b"file", b"f_inode"), (b"inode", b"i_mode"), (b"inode", b"i_ino"), (b"task_struct", b"tgid")];

const MAGIC: u16 = 0xeb9f;
const TYPE_BYTES: usize = 12;
const MEMBER_BYTES: usize = 12;
const KIND_STRUCT: u32 = 4;
const KIND_FUNC: u32 = 12;

/// Reads what is needed; `None` if it is not there, as in a kernel built otherwise.
pub(super) fn parse(bytes: &[u8]) -> Option<Layout> {
    let header: &[u8; 24] = bytes.first_chunk()?;
    if u16::from_ne_bytes([header[0], header[1]]) != MAGIC {
        return None;
    }
    let at = |place| u32_at(header, place).map(|value| value as usize);
    let body = bytes.get(at(4)?..)?;
    let section = |place, length| body.get(at(place)?..)?.get(..at(length)?);
    let (types, strings) = (section(8, 12)?, section(16, 20)?);
    let name = |offset: u32| {
        let rest = strings.get(offset as usize..)?;
        rest.get(..rest.iter().position(|byte| *byte == 0)?)
    };
    let mut found: [Option<i16>; MEMBERS.len()] = [None; MEMBERS.len()];
    let mut function = None;
    let (mut rest, mut number) = (types, 0);
    while let Some(described) = rest.first_chunk::<TYPE_BYTES>() {
        // Number 0 is `void`, which is not described.
        number += 1;
        let (called, info) = (u32_at(described, 0)?, u32_at(described, 4)?);
        let (kind, count) = (info >> 24 & 31, (info & 0xffff) as usize);
        let details = rest.get(TYPE_BYTES..)?.get(..details_bytes(kind, count)?)?;
        if kind == KIND_FUNC && name(called)? == FUNCTION {
            function = Some(number);
        } else if kind == KIND_STRUCT {
            let called = name(called)?;
            for (found, (structure, member)) in found.iter_mut().zip(MEMBERS) {
                if found.is_none() && called == structure {
                    *found = place_of(details, info, |offset| name(offset) == Some(member));
                }
            }
        }
        rest = rest.get(TYPE_BYTES + details.len()..)?;
    }
    let [file_inode, inode_mode, inode_number, task_process] = found;
    Some(Layout {
        function: function?,
        file_inode: file_inode?,
        inode_mode: inode_mode?,
        inode_number: inode_number?,
        task_process: task_process?,
    })
}

/// The member's place in bytes; `None` if there is none, or one that an instruction cannot reach.
fn place_of(members: &[u8], info: u32, is_it: impl Fn(u32) -> bool) -> Option<i16> {
    let member = members.chunks_exact(MEMBER_BYTES).find(|member| u32_at(member, 0).is_some_and(&is_it))?;
    let bits = u32_at(member, 8)?;
    // Where some member is a bit field, the upper eight bits are the width of this one.
    let bits = if info >> 31 == 1 { bits & 0x00ff_ffff } else { bits };
    (bits % 8 == 0).then(|| i16::try_from(bits / 8).ok()).flatten()
}

/// Bytes after the common part of a type of this kind; `None` for a kind that is younger than this.
fn details_bytes(kind: u32, count: usize) -> Option<usize> {
    match kind {
        // int, variable, declaration tag
        1 | 14 | 17 => Some(4),
        // pointer, forward, typedef, volatile, const, restrict, function, float, type tag
        2 | 7..=12 | 16 | 18 => Some(0),
        // array
        3 => Some(12),
        // structure, union, data section, enumeration of 64 bits
        4 | 5 | 15 | 19 => Some(12 * count),
        // enumeration, function's prototype
        6 | 13 => Some(8 * count),
        _ => None,
    }
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A description of these types: kind and flag, name, further words.
    fn described(types: &[(u32, u32, &[u32])]) -> Vec<u8> {
        const STRINGS: &[u8] = b"\0file\0f_inode\0inode\0i_mode\0i_ino\0task_struct\0tgid\0bpf_iter_task_file\0";
        let mut body = Vec::new();
        for (info, name, words) in types {
            for word in [*name, *info, 0].iter().chain(*words) {
                body.extend_from_slice(&word.to_ne_bytes());
            }
        }
        let mut bytes = MAGIC.to_ne_bytes().to_vec();
        bytes.extend_from_slice(&[1, 0]);
        for word in [24, 0, body.len() as u32, body.len() as u32, STRINGS.len() as u32] {
            bytes.extend_from_slice(&word.to_ne_bytes());
        }
        [bytes, body, STRINGS.to_vec()].concat()
    }

    fn kernel() -> Vec<u8> {
        described(&[
            (1 << 24, 0, &[32]),
            (KIND_STRUCT << 24 | 1, 1, &[6, 1, 256]),
            (KIND_STRUCT << 24 | 1 << 31 | 2, 14, &[20, 1, 16 << 24 | 16, 27, 1, 512]),
            (KIND_STRUCT << 24 | 1, 33, &[45, 1, 8000]),
            (KIND_FUNC << 24, 50, &[]),
        ])
    }

    #[test]
    fn places_and_numbers_are_found() {
        let layout = Layout { function: 5, file_inode: 32, inode_mode: 2, inode_number: 64, task_process: 1000 };
        assert_eq!(parse(&kernel()), Some(layout));
        assert_eq!(parse(&described(&[(KIND_FUNC << 24, 50, &[])])), None, "no structures are described");
        assert_eq!(parse(&described(&[(31 << 24, 0, &[])])), None, "a kind that is not known");
    }

    #[test]
    fn this_kernel_can_be_read_if_it_describes_itself() {
        let Ok(bytes) = std::fs::read(super::super::iterator::TYPES) else { return };
        let layout = parse(&bytes).expect("structures that every kernel has");
        assert!(layout.function > 0 && layout.task_process > 0, "{layout:?}");
    }

    proptest! {
        #[test]
        fn no_bytes_panic(cut in 0..400_usize, changes in prop::collection::vec((0..400_usize, any::<u8>()), 0..20)) {
            let mut bytes = kernel();
            for (at, byte) in changes {
                if let Some(place) = bytes.get_mut(at) {
                    *place = byte;
                }
            }
            bytes.truncate(cut);
            let _ = parse(&bytes);
        }
    }
}
