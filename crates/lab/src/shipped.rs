//! The experiments that ship with the program: the five founding ones and two about tunnels, each a folder below `experiments/` whose files are
//! compiled in. They are read and checked like any other experiment.

use crate::Experiment;
use crate::read::{Loaded, Refused};

/// An experiment with the files beside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shipped {
    /// The name for `holdfast lab run NAME`.
    pub name: &'static str,
    /// The experiment file.
    pub text: &'static str,
    /// The files beside it: path and text.
    pub beside: &'static [(&'static str, &'static str)],
}

macro_rules! shipped {
    ($( $name:literal: $( $beside:literal )*; )*) => {
        /// All of them: first those of the founding reports, in their order.
        pub const ALL: &[Shipped] = &[ $( Shipped {
            name: $name,
            text: include_str!(concat!("../experiments/", $name, "/experiment.toml")),
            beside: &[ $( ($beside, include_str!(concat!("../experiments/", $name, "/", $beside))), )* ],
        }, )* ];
    };
}

shipped! {
    "keepalive-states": "nginx.conf" "mime.types";
    "pool-throughput": "origin.conf" "proxy.conf" "haproxy.cfg";
    "million-tunnels": "level1.conf" "level2.conf";
    "listen-backlog": "server.conf";
    "two-limit-pool": "gateway.go" "proxy.conf" "post.lua";
    "stalled-consumers": "proxy.conf" "haproxy.cfg";
    "reconnect-storm": "proxy.conf" "haproxy.cfg";
}

/// The experiment with this name.
pub fn find(name: &str) -> Option<&'static Shipped> {
    ALL.iter().find(|shipped| shipped.name == name)
}

impl Shipped {
    /// The experiment, read and checked.
    pub fn load(&self) -> Result<Loaded, Refused> {
        let mut beside = |path: &str| {
            let found = self.beside.iter().find(|(name, _)| *name == path);
            found.map(|(_, text)| (*text).to_owned()).ok_or_else(|| "is not part of the program".to_owned())
        };
        Experiment::parse(self.text, &format!("{}/experiment.toml", self.name), &mut beside)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Adaptation;

    #[test]
    fn shipped_experiments_are_sound_in_full_and_quick() {
        for shipped in ALL {
            let loaded = shipped.load().unwrap_or_else(|refused| panic!("{}:\n{refused}", shipped.name));
            let experiment = &loaded.experiment;
            assert_eq!(experiment.name, shipped.name);
            for server in ["nginx", "holdfast"] {
                assert!(experiment.arms.iter().any(|arm| arm.name.starts_with(server)), "{server} in {}", shipped.name);
            }
            assert!(!experiment.claims.is_empty() && experiment.method.rounds >= 6, "{} can be judged", shipped.name);
            let quick = Adaptation { quick: true, ..Adaptation::default() };
            let adapted = experiment.adapted(&quick).unwrap_or_else(|error| panic!("{}: {error:?}", shipped.name));
            assert!(adapted.method.rounds >= 6, "{} can be judged after --quick", shipped.name);
        }
    }

    #[test]
    fn haproxys_connections_fit_its_descriptors() {
        // It refuses to start otherwise. A connection takes two; 100 are for itself.
        for shipped in ALL {
            let Some((_, conf)) = shipped.beside.iter().find(|(name, _)| *name == "haproxy.cfg") else { continue };
            let (_, rest) = conf.split_once("maxconn ").expect("a limit");
            let most: u64 = rest.split_whitespace().next().expect("a number").parse().expect("a number");
            let experiment = shipped.load().expect("sound").experiment;
            let proxy = experiment.processes.iter().find(|process| process.name == "proxy").expect("a proxy");
            let descriptors = proxy.descriptors.expect("a limit");
            assert!(2 * most + 100 <= descriptors, "{}: {most} connections, {descriptors}", shipped.name);
        }
    }

    #[test]
    fn every_file_of_a_folder_is_part_of_the_program() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("experiments");
        for shipped in ALL {
            let entries = std::fs::read_dir(folder.join(shipped.name)).expect("its folder");
            let mut there: Vec<String> =
                entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
            let mut known: Vec<&str> =
                shipped.beside.iter().map(|(name, _)| *name).chain(["experiment.toml"]).collect();
            there.sort_unstable();
            known.sort_unstable();
            assert_eq!(there, known, "{}", shipped.name);
        }
    }
}
