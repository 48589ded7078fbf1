//! What the user typed: subcommands, flags, their bounds and help texts. Must not act on them.

use std::ffi::OsStr;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args as ClapArgs, CommandFactory as _, FromArgMatches as _, Parser, Subcommand, ValueEnum};

use stagegate_api::parse_mebibytes;
use stagegate_evaluate::gate::limits;
use stagegate_runtime::leader::Timing;
use stagegate_sandbox::child::Child;

use crate::target::Target;

const EXIT_CODES: &str = "\
Exit codes: 0 success, 1 negative result, 2 usage or input error, 3 timeout or
not decided yet, 4 environment error.
Results go to standard output, everything else to standard error.";

/// Where the controller takes gates from by default.
pub const GATE_NAMESPACE: &str = "stagegate-gates";

/// The file name by which kubectl finds a plugin, and what people type then.
const PLUGIN: (&str, &str) = ("kubectl-stagegate", "kubectl stagegate");

const STATUS_EXIT_CODES: &str = "\
Exit codes:
  0  completed and Ready
  1  a check holds the stage (it may still pass), or the rollout has failed or is
     stalled
  2  there is no such policy or YurtAppDaemon
  3  progressing, paused, not looked at since the last edit, or completed but not
     Ready now
  4  environment error";

/// Moves Kubernetes workloads through clusters stage by stage, on proof.
#[derive(Debug, Parser)]
#[command(name = "stagegate", version, about, after_help = EXIT_CODES, max_term_width = 100)]
pub struct Args {
    #[command(subcommand)]
    pub command: Command,
}

impl Args {
    /// Reads the command line of this process. Ends it where that is wrong or asks for help, in whose texts the program is
    /// called what the user has typed: kubectl starts a plugin by its file name.
    pub fn of_process() -> Self {
        let mut command = Self::command();
        let called = std::env::args_os().next().unwrap_or_default();
        if Path::new(&called).file_name() == Some(OsStr::new(PLUGIN.0)) {
            command = command.bin_name(PLUGIN.1);
        }
        let read = Self::from_arg_matches(&command.get_matches_mut());
        read.unwrap_or_else(|error| error.format(&mut command).exit())
    }
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Try a rollout in one process: an API server, simulated clusters and every controller
    #[cfg(feature = "playground")]
    Playground(PlaygroundArgs),
    /// Run the staging controller, or those that --controllers names, against a cluster
    Run(RunArgs),
    /// Show how the rollout of one policy or YurtAppDaemon stands, what is missing, and what to do
    #[command(after_help = STATUS_EXIT_CODES)]
    Status(StatusArgs),
    /// Show which revision each stage of one policy has, in which objects it differs, and what it waits for
    Revisions(RevisionsArgs),
    /// Show the rollouts of a cluster live
    Watch(WatchArgs),
    /// Check StagedBindingPolicies, StatusCollectors and YurtAppDaemons without a cluster
    #[cfg(feature = "playground")]
    Lint(LintArgs),
    /// Evaluate CEL expressions over an object or each item of a List, with the limits that the controller sets
    Cel(CelArgs),
    /// Check, try and pack a gate's WebAssembly component, without a cluster
    #[command(subcommand)]
    Gate(GateCommand),
    /// Print the CustomResourceDefinition of StagedBindingPolicy, or with --workloads that of YurtAppDaemon, as YAML
    Crds {
        /// Print the definitions of the workload controllers instead: they go into clusters that run workloads, not into a WDS
        #[arg(long)]
        workloads: bool,
    },
    /// Print a completion script
    Completions {
        /// The shell it is for
        shell: clap_complete::Shell,
    },
    /// Write the man pages, one for each command
    Man {
        /// Where to; made if it is missing
        directory: PathBuf,
    },
    /// Print the version
    Version,
    /// What the controller starts to compile and run gates; not for people
    #[command(subcommand, hide = true)]
    Sandbox(Child),
}

#[derive(Debug, ClapArgs)]
pub struct PlaygroundArgs {
    /// Manifests to apply: YAML files of one or many documents, or directories of them (not those below)
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// End when every applied policy or YurtAppDaemon is in this phase
    #[arg(long, value_name = "PHASE")]
    pub until: Option<Goal>,
    /// Give up after this long (exit code 3) [default: 60s with --until, never without]
    #[arg(long, value_parser = duration, value_name = "DURATION")]
    pub timeout: Option<Duration>,
    /// How each change and the summary are written; text is redrawn in place on a terminal
    #[arg(short, long, default_value = "text", value_name = "FORMAT")]
    pub output: Format,
    /// Where to write the kubeconfig [default: a file in the temporary directory]
    #[arg(long, value_name = "PATH")]
    pub kubeconfig: Option<PathBuf>,
    /// Go on serving after the end, until Ctrl-C
    #[arg(long)]
    pub serve: bool,
    /// How long a Binding must stand unchanged, from 10ms to 10m
    #[arg(long, default_value = "200ms", value_parser = settle, value_name = "DURATION")]
    pub settle: Duration,
}

#[derive(Debug, ClapArgs)]
pub struct RunArgs {
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// Which controllers to run; binding and combine are KubeStellar's where KubeStellar runs, and yurtappdaemon is for clusters with node pools
    #[arg(long, value_delimiter = ',', default_value = "staging", value_name = "NAMES")]
    pub controllers: Vec<Controller>,
    /// How long a Binding must stand unchanged, from 10ms to 10m; KubeStellar writes one 2 s after the first change
    #[arg(long, default_value = "3s", value_parser = settle, value_name = "DURATION")]
    pub settle: Duration,
    /// Namespaces whose ConfigMaps may be run as gates; whoever can write there decides about rollouts
    #[arg(long, value_delimiter = ',', default_value = GATE_NAMESPACE, value_parser = namespace, value_name = "NAMES")]
    pub gate_namespaces: Vec<String>,
    #[command(flatten)]
    pub lease: LeaseArgs,
    /// Directory to keep compiled gates in, ours alone; made if it is missing [default: in memory, 64 MiB]
    #[arg(long, value_name = "DIRECTORY")]
    pub gate_cache: Option<PathBuf>,
    /// Where to serve /livez, /readyz and /metrics, such as 0.0.0.0:8080 [default: nowhere]
    #[arg(long, value_parser = host_port, value_name = "HOST:PORT")]
    pub admin_address: Option<String>,
    /// Add metrics of each StagedBindingPolicy to /metrics, for the first 1,000 by name
    #[arg(long, requires = "admin_address")]
    pub metrics_per_policy: bool,
    /// How the log on standard error is written
    #[arg(long, default_value = "text", value_name = "FORMAT")]
    pub log_format: LogFormat,
}

/// How several processes agree on one that writes.
#[derive(Debug, ClapArgs)]
pub struct LeaseArgs {
    /// Work only while holding a Lease; the other replicas stand by and take over when its holder fails
    #[arg(long)]
    pub leader_elect: bool,
    /// Namespace of the Lease, which must exist [default: the pod's own, else stagegate-system]
    #[arg(long, requires = "leader_elect", value_parser = namespace, value_name = "NAME")]
    pub lease_namespace: Option<String>,
    /// Name of the Lease; processes that run different controllers need different ones
    #[arg(long, requires = "leader_elect", default_value = "stagegate", value_parser = object_name, value_name = "NAME")]
    pub lease_name: String,
    /// How long the others wait for a holder that falls silent, from 1s to 10m; it stops writing after two thirds of it
    #[arg(long, requires = "leader_elect", default_value = "15s", value_parser = lease_duration, value_name = "DURATION")]
    pub lease_duration: Duration,
}

#[derive(Debug, ClapArgs)]
pub struct StatusArgs {
    /// The name of a StagedBindingPolicy, or yad/NAME for a YurtAppDaemon
    #[arg(value_name = "NAME")]
    pub target: Target,
    /// Namespace of the YurtAppDaemon [default: that of the kubeconfig's context]; a policy has none
    #[arg(short, long, value_parser = namespace, value_name = "NAME")]
    pub namespace: Option<String>,
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// Output format
    #[arg(short, long, default_value = "text", value_name = "FORMAT")]
    pub output: Format,
}

#[derive(Debug, ClapArgs)]
pub struct RevisionsArgs {
    /// The name of the StagedBindingPolicy
    pub name: String,
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// Output format
    #[arg(short, long, default_value = "text", value_name = "FORMAT")]
    pub output: Format,
}

#[derive(Debug, ClapArgs)]
pub struct WatchArgs {
    /// Only the StagedBindingPolicy of this name, or with yad/NAME the YurtAppDaemon
    #[arg(value_name = "NAME")]
    pub target: Option<Target>,
    /// Namespace of the YurtAppDaemon [default: that of the kubeconfig's context]; a policy has none
    #[arg(short, long, value_parser = namespace, value_name = "NAME")]
    pub namespace: Option<String>,
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// End when the policy or YurtAppDaemon is in this phase, or when it has Completed or Failed instead (exit code 1); without NAME, every policy that
    /// exists at the start
    #[arg(long, value_name = "PHASE")]
    pub until: Option<Goal>,
    /// Give up after this long (exit code 3) [default: never]
    #[arg(long, value_parser = duration, value_name = "DURATION")]
    pub timeout: Option<Duration>,
    /// How each change and, at the end, the summary are written; text is redrawn in place on a terminal
    #[arg(short, long, default_value = "text", value_name = "FORMAT")]
    pub output: Format,
}

impl WatchArgs {
    /// Of the one object that is watched.
    pub fn name(&self) -> Option<&str> {
        self.target.as_ref().map(|target| target.name.as_str())
    }
}

#[derive(Debug, ClapArgs)]
pub struct LintArgs {
    /// YAML files, .wasm files, or directories (not their subdirectories); `-` is standard input
    ///
    /// Policies are compared with the StatusCollectors, workload, ConfigMaps and .wasm files that you give with them.
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// End with exit code 1 for warnings, too
    #[arg(long)]
    pub strict: bool,
    /// Output format
    #[arg(short, long, default_value = "text", value_name = "FORMAT")]
    pub output: Format,
}

#[derive(Debug, ClapArgs)]
pub struct CelArgs {
    /// The expression
    #[arg(required_unless_present = "file", conflicts_with = "file")]
    pub expression: Option<String>,
    /// Read expressions from this file, one a line; blank lines and lines that begin with // are skipped
    #[arg(short, long, value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// The object, as YAML or JSON; `-` is standard input. A List gives an answer for each of its items
    #[arg(long, value_name = "FILE")]
    pub with: PathBuf,
    /// Which variable the object is
    #[arg(long, default_value = "combinedStatus", value_name = "VARIABLE")]
    pub root: Root,
    /// Output format
    #[arg(short, long, default_value = "text", value_name = "FORMAT")]
    pub output: Format,
}

#[derive(Debug, Subcommand)]
pub enum GateCommand {
    /// Load a component as a host would: which world, size, digest, and what the gate says of itself
    Check(GateCheckArgs),
    /// Ask a gate for one verdict; exit code 0 for a pass, 1 for hold, fail and unknown
    Run(GateRunArgs),
    /// Print the ConfigMap that brings a component into a cluster
    Configmap(GateConfigmapArgs),
}

#[derive(Debug, ClapArgs)]
pub struct GateCheckArgs {
    /// The component, plain or packed with gzip
    pub file: PathBuf,
    /// How what was found is written
    #[arg(short, long, default_value = "text", value_name = "FORMAT")]
    pub output: Format,
}

#[derive(Debug, ClapArgs)]
pub struct GateRunArgs {
    /// The component, plain or packed with gzip
    pub file: PathBuf,
    /// The request with its config, as JSON; `-` is standard input
    #[arg(long, value_name = "FILE")]
    pub request: PathBuf,
    /// Longest time of the evaluation: 10ms to 5s
    #[arg(long, default_value = "500ms", value_parser = gate_timeout, value_name = "DURATION")]
    pub timeout: Duration,
    /// Linear memory of the evaluation, a whole number of Mi: 1Mi to 256Mi
    #[arg(long, default_value = "64Mi", value_parser = gate_memory, value_name = "SIZE")]
    pub memory: u32,
    /// How the verdict is written
    #[arg(short, long, default_value = "text", value_name = "FORMAT")]
    pub output: Format,
}

#[derive(Debug, ClapArgs)]
pub struct GateConfigmapArgs {
    /// What the ConfigMap is called
    #[arg(value_parser = object_name)]
    pub name: String,
    /// The component, plain or packed with gzip
    pub file: PathBuf,
    /// Where it goes; hosts read gates only from the namespaces of their `--gate-namespaces`
    #[arg(long, default_value = GATE_NAMESPACE, value_parser = object_name, value_name = "NAME")]
    pub namespace: String,
    /// The entry of `binaryData` that holds the component
    #[arg(long, default_value = "gate.wasm", value_parser = entry_key, value_name = "KEY")]
    pub key: String,
}

/// Which cluster to talk to.
#[derive(Debug, Default, ClapArgs)]
pub struct ClusterArgs {
    /// The kubeconfig [default: KUBECONFIG, else ~/.kube/config, else the pod's service account]
    #[arg(long, value_name = "PATH")]
    pub kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig [default: its current one]
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people
    Text,
    /// For programs: one JSON object a line
    Json,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people: coloured on a terminal
    Text,
    /// One JSON object a line
    Json,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "PascalCase")]
pub enum Goal {
    Completed,
    Holding,
    Failed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Controller {
    Staging,
    Binding,
    Combine,
    Yurtappdaemon,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "camelCase")]
pub enum Root {
    /// A condition's evidence, a CombinedStatus; `obj` is the same value
    CombinedStatus,
    /// As `combinedStatus`
    Obj,
    /// What a filter sees of a bound object: group, version, resource, namespace (absent where cluster-scoped), name,
    /// resourceVersion, createOnly, statusCollectors, wantSingletonReportedState, wantMultiWECReportedState
    DownsyncClause,
    /// What a condition of a YurtAppDaemon's stage sees: FILE is one of its workloads, or a List of them; NodePools in the List give the
    /// labels of the pools
    Pools,
    /// What a StatusCollector's expression sees: FILE is a map of `returned`, `inventory`, `obj` and `propagation`, or of those of
    /// them that the expression names
    Returned,
}

/// The longest duration a flag takes: a day. What is longer is a typing mistake.
const DURATION_MAX: Duration = Duration::from_secs(24 * 3600);

fn duration(text: &str) -> Result<Duration, String> {
    duration_in(text, &(Duration::ZERO..=DURATION_MAX), "at most 24h")
}

/// `bounds` is what is said of a duration outside of the range.
fn duration_in(text: &str, range: &RangeInclusive<Duration>, bounds: &str) -> Result<Duration, String> {
    let signed: jiff::SignedDuration = text
        .parse()
        .map_err(|_cause| "expected a duration such as 200ms, 3s or 10m".to_owned())?;
    let duration = Duration::try_from(signed).map_err(|_negative| "a duration is not negative".to_owned())?;
    if range.contains(&duration) {
        Ok(duration)
    } else {
        Err(bounds.to_owned())
    }
}

/// Whether the machine is one is found out when it is used.
fn host_port(text: &str) -> Result<String, String> {
    let has_port = |(host, port): (&str, &str)| !host.is_empty() && port.parse::<u16>().is_ok();
    if text.rsplit_once(':').is_some_and(has_port) {
        Ok(text.to_owned())
    } else {
        Err("expected an address and a port, such as 0.0.0.0:8080 or [::]:8080".to_owned())
    }
}

/// A DNS label (RFC 1123), as namespaces are named.
fn namespace(text: &str) -> Result<String, String> {
    let is_label = (1..=63).contains(&text.len())
        && text
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
        && !text.starts_with('-')
        && !text.ends_with('-');
    if is_label {
        Ok(text.to_owned())
    } else {
        Err("expected lower-case letters, digits and `-`, with a letter or digit at both ends".to_owned())
    }
}

/// Other waiting times are multiples of the settle time, so it may not be zero.
fn settle(text: &str) -> Result<Duration, String> {
    let range = Duration::from_millis(10)..=Duration::from_secs(600);
    duration_in(text, &range, "between 10ms and 10m")
}

fn gate_timeout(text: &str) -> Result<Duration, String> {
    let most = Duration::from_millis(u64::from(limits::TIMEOUT_MS_MAX));
    duration_in(text, &(Duration::from_millis(10)..=most), "between 10ms and 5s")
}

/// In MiB.
fn gate_memory(text: &str) -> Result<u32, String> {
    parse_mebibytes(text)
        .filter(|size| (1..=limits::MEMORY_MIB_MAX).contains(size))
        .ok_or_else(|| "expected a whole number of Mi from 1Mi to 256Mi, for example 64Mi".to_owned())
}

fn lease_duration(text: &str) -> Result<Duration, String> {
    duration_in(text, &(Timing::LEASE_MIN..=Timing::LEASE_MAX), "between 1s and 10m")
}

/// RFC 1123: what Kubernetes takes as a name.
fn object_name(text: &str) -> Result<String, String> {
    let is_word = |part: &str| {
        let has = |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
        has(part.as_bytes().first()) && has(part.as_bytes().last())
    };
    let is_name = text.len() <= 253
        && text
            .bytes()
            .all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.'))
        && text.split('.').all(is_word);
    if is_name {
        Ok(text.to_owned())
    } else {
        Err("lower-case letters, digits, `-` and `.`, with a letter or digit at both ends".to_owned())
    }
}

/// What Kubernetes takes as a key of a ConfigMap.
fn entry_key(text: &str) -> Result<String, String> {
    let is_key = (1..=253).contains(&text.len())
        && !matches!(text, "." | "..")
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'));
    if is_key {
        Ok(text.to_owned())
    } else {
        Err("letters, digits, `-`, `_` and `.`".to_owned())
    }
}
