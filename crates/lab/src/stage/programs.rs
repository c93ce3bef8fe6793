//! Finds the program of a process or a load on this machine, and builds its command line. It starts nothing except the Go
//! compiler, outside of any measurement.

use super::StageError;
use super::process::{Started, find_program, pause};
use super::run::Stop;
use crate::experiment::{Client, Probe};
use crate::plan::{Content, Program, Staged, StagedProcess};
use std::collections::hash_map::DefaultHasher;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs;
use std::hash::{Hash as _, Hasher as _};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// The first build of a program with an HTTP server compiles half of Go's library, which takes some minutes on one core.
const GO_BUILD_TIME_MAX: Duration = Duration::from_mins(5);

/// The program that counts system calls.
pub(super) const STRACE: &str = "strace";

/// Where to look for programs.
#[derive(Debug, Clone)]
pub struct Programs {
    holdfast: PathBuf,
    /// Folders to search before `$PATH`.
    folders: Vec<PathBuf>,
    /// The folder of built Go programs, by the hash of their source.
    cache: PathBuf,
    /// The version of the Go compiler; queried once, not before each sample.
    go_version: OnceLock<String>,
}

/// The parts of a command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Words {
    pub(super) program: PathBuf,
    pub(super) arguments: Vec<OsString>,
}

impl Programs {
    /// `holdfast` is this program. The peers are searched in `$HOLDFAST_PEERS`, in target/peers/bin below the current
    /// folder and beside `holdfast`'s target folder, and then in `$PATH`. Built programs go to `cache`.
    pub fn new(holdfast: PathBuf, cache: PathBuf) -> Self {
        let given = std::env::var_os("HOLDFAST_PEERS").map(PathBuf::from);
        let below = std::env::current_dir().ok().map(|folder| folder.join("target/peers/bin"));
        let beside = holdfast.ancestors().nth(2).map(|target| target.join("peers/bin"));
        let folders = [given, below, beside].into_iter().flatten().collect();
        Self { holdfast, folders, cache, go_version: OnceLock::new() }
    }

    /// The path of a program; `None` if it is missing.
    pub fn find(&self, name: &str) -> Option<PathBuf> {
        find_program(name, &self.folders)
    }

    /// The path of this program.
    pub fn holdfast(&self) -> &Path {
        &self.holdfast
    }

    /// The program of a load.
    pub(super) fn client(&self, client: Client) -> Option<PathBuf> {
        if client.is_own() { Some(self.holdfast.clone()) } else { self.find(client_name(client)) }
    }

    /// Finds and builds everything that an arm needs. `Some` says why the arm cannot run on this machine.
    pub(super) fn prepare(&self, staged: &Staged, stop: &Stop) -> Result<Option<String>, StageError> {
        for load in staged.fills.iter().chain(&staged.loads) {
            if self.client(load.program).is_none() {
                let why = absent(client_name(load.program));
                return Ok(Some(format!("{}: load {}: {why}", load.place, load.name)));
            }
        }
        if staged.probes.iter().any(|probe| matches!(probe, Probe::Calls { .. })) && self.find(STRACE).is_none() {
            return Ok(Some(absent(STRACE)));
        }
        for process in &staged.processes {
            let name = match &process.program {
                Program::Nginx => "nginx",
                Program::Haproxy => "haproxy",
                Program::Go => "go",
                Program::Command(name) => name,
                Program::Holdfast => continue,
            };
            if self.find(name).is_none() {
                return Ok(Some(format!("{}: process {}: {}", process.place, process.name, absent(name))));
            }
            if process.program == Program::Go {
                self.build(process, stop).map_err(|error| error.at(&process.place))?;
            }
        }
        Ok(None)
    }

    /// The command line of a process.
    pub(super) fn words(&self, process: &StagedProcess, stop: &Stop) -> Result<Words, StageError> {
        let named = |name: &str| self.find(name).ok_or_else(|| StageError::new(absent(name)));
        let mut arguments: Vec<OsString> = Vec::new();
        let mut own = process.arguments.as_slice();
        let conf = || process.conf.as_ref().map(|conf| conf.clone().into_os_string());
        let program = match &process.program {
            Program::Nginx => {
                arguments.extend(like_nginx(process));
                named("nginx")?
            }
            Program::Holdfast => {
                if process.conf.is_some() {
                    arguments.extend(like_nginx(process));
                }
                self.holdfast.clone()
            }
            Program::Haproxy => {
                arguments.push("-db".into());
                arguments.extend(conf().into_iter().flat_map(|conf| ["-f".into(), conf]));
                named("haproxy")?
            }
            Program::Go => {
                own = own.get(1..).unwrap_or_default();
                self.build(process, stop)?
            }
            Program::Command(name) => named(name)?,
        };
        arguments.extend(own.iter().map(OsString::from));
        Ok(Words { program, arguments })
    }

    /// The path of a Go program; builds it unless it is in the cache.
    fn build(&self, process: &StagedProcess, stop: &Stop) -> Result<PathBuf, StageError> {
        let first = process.arguments.first().map(PathBuf::from);
        let source = first.ok_or_else(|| StageError::new("a `go` process needs a file as its first argument"))?;
        let go = self.find("go").ok_or_else(|| StageError::new(absent("go")))?;
        let texts = source_texts(process, &source)?;
        let mut hasher = DefaultHasher::new();
        (self.go_version.get_or_init(|| said_first(&go, "version")), &texts).hash(&mut hasher);
        let name = source.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let built = self.cache.join(format!("{name}-{:016x}", hasher.finish()));
        if built.is_file() {
            return Ok(built);
        }
        let sources = built.with_extension("source");
        let write = || -> io::Result<()> {
            fs::create_dir_all(&sources)?;
            texts.iter().try_for_each(|(name, text)| fs::write(sources.join(name), text))
        };
        write().map_err(|error| {
            let hint = "$XDG_CACHE_HOME says where such programs are kept";
            StageError::new(format!("cannot build {name} in {}: {error} ({hint})", sources.display()))
        })?;
        // Under a temporary name until it is complete: two runs may build at the same time.
        let unfinished = built.with_extension(std::process::id().to_string());
        let mut command = Command::new(go);
        command.arg("build").arg("-o").arg(&unfinished).current_dir(&sources);
        if !texts.iter().any(|(name, _)| name == "go.mod") {
            command.args(texts.iter().map(|(name, _)| name).filter(|name| is_go(Path::new(name))));
        }
        // Use only what is installed; an experiment downloads nothing.
        command.envs([("GOTOOLCHAIN", "local"), ("GOPROXY", "off"), ("CGO_ENABLED", "0")]);
        if std::env::var_os("HOME").is_none() {
            command.env("GOCACHE", self.cache.join("go-build"));
        }
        let mut build = Started::new("go build", &mut command, sources.join("go.out"))?;
        let deadline = Instant::now() + GO_BUILD_TIME_MAX;
        while !build.has_ended()? {
            stop.check(format_args!("while {name} was being built"))?;
            if Instant::now() > deadline {
                let minutes = GO_BUILD_TIME_MAX.as_secs() / 60;
                return Err(StageError::new(build.quote(&format!("go build did not end within {minutes} min"))));
            }
            pause();
        }
        build.wait()?;
        fs::rename(&unfinished, &built)?;
        let _ = fs::remove_dir_all(&sources);
        Ok(built)
    }
}

/// The source files of a Go program with their names: one of the process's own files, one on disk, or a folder.
fn source_texts(process: &StagedProcess, source: &Path) -> Result<Vec<(String, String)>, StageError> {
    let name_of = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let read = |path: &Path| {
        fs::read_to_string(path).map_err(|error| StageError::new(format!("cannot read {}: {error}", path.display())))
    };
    let own = process.files.iter().find(|file| file.path == source).map(|file| &file.content);
    if let Some(Content::Text(text)) = own {
        return Ok(vec![(name_of(source), text.clone())]);
    }
    if !source.is_dir() {
        return Ok(vec![(name_of(source), read(source)?)]);
    }
    let mut texts = Vec::new();
    for entry in fs::read_dir(source)? {
        let path = entry?.path();
        let is_module = path.file_name().is_some_and(|name| name == "go.mod" || name == "go.sum");
        if is_module || is_go(&path) {
            texts.push((name_of(&path), read(&path)?));
        }
    }
    texts.sort();
    Ok(texts)
}

fn is_go(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "go")
}

/// The name of the program's file.
pub(super) fn client_name(client: Client) -> &'static str {
    match client {
        Client::Load | Client::Hold | Client::Floor => "holdfast",
        Client::Ab => "ab",
        Client::Wrk => "wrk",
        Client::Siege => "siege",
        Client::H2load => "h2load",
        Client::Hey => "hey",
        Client::Oha => "oha",
    }
}

/// The message that a program is missing, with the package that provides it; `cargo xtask peers` unpacks the same packages.
pub(super) fn absent(name: &str) -> String {
    let package = match name {
        "nginx" | "haproxy" | "wrk" | "siege" | "hey" => name,
        "ab" => "apache2-utils",
        "h2load" => "nghttp2-client",
        "go" => "golang-go",
        "oha" => return "oha is not there: no Debian package has it; `cargo install oha` does".to_owned(),
        other => return format!("there is no program `{other}`, as a path or on $PATH"),
    };
    format!(
        "{name} is not there: in a checkout of Holdfast `cargo xtask peers` puts it under target/peers; elsewhere install \
         the Debian package {package}, or have it on $PATH"
    )
}

/// The flags of nginx, and of Holdfast, which accepts the same ones. They set its folder as prefix, log errors where they
/// can be quoted, and keep it in the foreground and within its folder, unless the configuration sets this itself.
fn like_nginx(process: &StagedProcess) -> Vec<OsString> {
    let text = process.conf.as_ref().and_then(|conf| text_of(process, conf)).unwrap_or_default();
    let folder = process.folder.display();
    let mut globals = String::new();
    let user = rustix::process::geteuid().is_root().then(|| "user root;".to_owned());
    // As root, nginx would run its workers as `nobody`, which may not enter the folders of a private checkout.
    let wanted =
        [("daemon", Some("daemon off;".to_owned())), ("pid", Some(format!("pid {folder}/pid;"))), ("user", user)];
    for (_, directive) in wanted.into_iter().filter(|(word, _)| !has_directive(text, word)) {
        globals += &directive.unwrap_or_default();
    }
    let mut words: Vec<OsString> = vec!["-p".into(), process.folder.clone().into(), "-e".into(), "stderr".into()];
    words.extend(["-g".into(), globals.into()]);
    words.extend(process.conf.iter().flat_map(|conf| ["-c".into(), conf.clone().into_os_string()]));
    words
}

fn text_of<'a>(process: &'a StagedProcess, path: &Path) -> Option<&'a str> {
    let file = process.files.iter().find(|file| file.path == path)?;
    match &file.content {
        Content::Text(text) => Some(text),
        Content::Fill(_) => None,
    }
}

/// Whether a configuration has a directive of this name.
fn has_directive(text: &str, word: &str) -> bool {
    let uncommented = text.lines().map(|line| line.split('#').next().unwrap_or_default());
    uncommented
        .flat_map(|line| line.split([';', '{', '}']))
        .any(|directive| directive.split_ascii_whitespace().next() == Some(word))
}

/// By default, Debian's nginx uses system folders for temporary files and its access log. This sets other paths in the line
/// where `http` begins, so that every line keeps its number, and leaves directives in the text unchanged.
pub(super) fn with_own_paths(text: &str, folder: &Path) -> String {
    let kinds = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].into_iter();
    let unsaid = kinds.filter(|kind| !text.contains(&format!("{kind}_temp_path")));
    let words: Vec<String> =
        unsaid.map(|kind| format!(" {kind}_temp_path {}/temp-{kind};", folder.display())).collect();
    let mut words = words.concat();
    if !text.contains("access_log") {
        let _ = write!(words, " access_log {}/logs/access.log;", folder.display());
    }
    match behind_http(text) {
        Some(at) => format!("{}{words}{}", text.get(..at).unwrap_or_default(), text.get(at..).unwrap_or_default()),
        None => text.to_owned(),
    }
}

/// The position after the brace of `http {`.
fn behind_http(text: &str) -> Option<usize> {
    text.match_indices("http").find_map(|(at, word)| {
        let before = text.get(..at)?;
        let line = before.rsplit('\n').next().unwrap_or_default();
        let begins = before.chars().next_back().is_none_or(|c| c.is_whitespace() || matches!(c, ';' | '}'));
        let behind = text.get(at + word.len()..)?;
        let brace = behind
            .find(|c: char| !c.is_whitespace())
            .filter(|brace| behind.get(*brace..).is_some_and(|rest| rest.starts_with('{')))?;
        (begins && !line.contains('#')).then_some(at + word.len() + brace + 1)
    })
}

/// The first line of a program's version output, on either stream and with any exit status.
pub(super) fn said_first(program: &Path, option: &str) -> String {
    let Ok(output) = Command::new(program).arg(option).output() else { return "unknown".to_owned() };
    let said = [output.stdout, output.stderr].concat();
    let line = String::from_utf8_lossy(&said).lines().next().unwrap_or_default().to_owned();
    line.split(" Copyright").next().unwrap_or_default().split(" - ").next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::StagedFile;

    fn process(program: Program, conf: &str, arguments: &[&str]) -> StagedProcess {
        let folder = PathBuf::from("/sample/proxy");
        let file = StagedFile { path: folder.join("nginx.conf"), content: Content::Text(conf.to_owned()) };
        StagedProcess {
            name: "proxy".to_owned(),
            place: "experiment.toml:1:1".to_owned(),
            host: "here".to_owned(),
            program,
            conf: Some(file.path.clone()),
            files: vec![file],
            folder,
            arguments: arguments.iter().map(|word| (*word).to_owned()).collect(),
            ready: None,
            descriptors: None,
            core: None,
            may_die: false,
        }
    }

    fn words(process: &StagedProcess) -> String {
        let programs = Programs::new(PathBuf::from("/bin/holdfast"), PathBuf::from("/cache"));
        let words = programs.words(process, &Stop::default()).unwrap();
        let all = words.arguments.iter().map(|word| word.to_string_lossy().into_owned());
        format!("{} {}", words.program.display(), all.collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn holdfast_starts_like_nginx_unless_unconfigured() {
        let said = words(&process(Program::Holdfast, "daemon on;\nuser  x;# pid y;\n", &["-q"]));
        let expected =
            "/bin/holdfast -p /sample/proxy -e stderr -g pid /sample/proxy/pid; -c /sample/proxy/nginx.conf -q";
        assert_eq!(said, expected);
        let mut origin = process(Program::Holdfast, "", &["origin", "--listen", "10.77.0.1:80"]);
        origin.conf = None;
        assert_eq!(words(&origin), "/bin/holdfast origin --listen 10.77.0.1:80");
    }

    #[test]
    fn names_missing_programs_with_their_packages() {
        let programs = Programs::new(PathBuf::from("/bin/holdfast"), PathBuf::from("/cache"));
        let error = programs
            .words(&process(Program::Command("no-such-program".to_owned()), "", &[]), &Stop::default())
            .unwrap_err();
        assert!(error.text.contains("`no-such-program`"), "{error}");
        let cures = [("nginx", "nginx"), ("haproxy", "haproxy"), ("wrk", "wrk"), ("siege", "siege")];
        for (name, package) in cures.into_iter().chain([("ab", "apache2-utils"), ("go", "golang-go")]) {
            let said = absent(name);
            assert!(said.starts_with(&format!("{name} is not there: ")), "{said}");
            assert!(said.contains("`cargo xtask peers`") && said.contains(&format!("package {package},")), "{said}");
        }
    }

    #[test]
    fn nginx_files_stay_in_their_folder_with_line_numbers() {
        let folder = Path::new("/f");
        let text = with_own_paths("# http {\nevents {}\nhttp\n{\n  proxy_temp_path x;\n}\n", folder);
        assert!(
            text.starts_with("# http {\nevents {}\nhttp\n{ client_body_temp_path /f/temp-client_body; fastcgi"),
            "{text}"
        );
        assert_eq!((text.lines().count(), text.matches("proxy_temp_path").count()), (6, 1));
        assert!(text.contains(" access_log /f/logs/access.log;\n"), "{text}");
        assert!(!with_own_paths("http { access_log off; }", folder).contains("/f/logs"));
        assert_eq!(with_own_paths("stream { proxy_pass http://x; }", folder), "stream { proxy_pass http://x; }");
    }
}
