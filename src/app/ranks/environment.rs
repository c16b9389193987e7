//! Determines the rank of this process from the environment variables that launchers set.
//!
//! Input: environment variables. Output: a [`RankEnvironment`] with the rank, the number of ranks and the address of
//! rank 0; `None` for a process that is not one of several ranks.
//!
//! The variables `CLK_RANK`, `CLK_RANKS`, `CLK_LOCAL_RANK`, `CLK_HOST` and `CLK_PORT` take precedence. They
//! are set by `clk run --ranks` or by the user. Otherwise, the variables of torchrun, Open MPI, PMI (MPICH) and Slurm
//! are tried, in this order. torchrun itself listens on `MASTER_PORT`, so Clk uses the next port. If no port is set,
//! one is computed from a hash of the job's number or name, so that two jobs on a node rarely use the same port.

use thiserror::Error;

/// The environment variables that Clk defines.
pub(crate) const RANK: &str = "CLK_RANK";
pub(crate) const RANKS: &str = "CLK_RANKS";
pub(crate) const LOCAL: &str = "CLK_LOCAL_RANK";
pub(crate) const HOST: &str = "CLK_HOST";
pub(crate) const PORT: &str = "CLK_PORT";
/// The environment variable with a secret that all ranks of a job share.
pub(crate) const TOKEN: &str = "CLK_TOKEN";

/// The environment variable that marks processes started by `clk run --ranks`. They end when their launcher ends.
pub(super) const LAUNCHED_BY_CLK: &str = "CLK_LAUNCHED";
/// The environment variable with the number of seconds that ranks wait for each other at the start.
pub(super) const WAIT: &str = "CLK_RANKS_WAIT";

/// Returns whether `clk run --ranks` has started this process.
pub(crate) fn is_launched() -> bool {
    std::env::var_os(LAUNCHED_BY_CLK).is_some()
}

/// Maximum number of ranks.
pub(crate) const MAX_RANKS: u32 = 4096;

/// The range of ports that are computed from a hash. It is below the range of ephemeral ports on common systems.
const PORTS: std::ops::Range<u16> = 20_000..32_000;

/// The rank of this process, the number of ranks, and the address of rank 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RankEnvironment {
    pub rank: u32,
    pub ranks: u32,
    /// The number of this process among the ranks on its node.
    pub local: u32,
    /// The host name or IP address of rank 0.
    pub host: String,
    pub port: u16,
    pub token: String,
}

impl RankEnvironment {
    /// Returns whether the address of rank 0 shows that all ranks run on this machine.
    pub fn is_local(&self) -> bool {
        self.host == "localhost" || self.host.starts_with("127.") || self.host == "::1"
    }
}

/// The environment variables in which a launcher stores the rank, the number of ranks, and the same two numbers within
/// a node.
struct Launcher {
    name: &'static str,
    rank: &'static str,
    ranks: &'static str,
    local: &'static [&'static str],
    local_ranks: &'static [&'static str],
}

const LAUNCHERS: [Launcher; 5] = [
    Launcher { name: "clk", rank: RANK, ranks: RANKS, local: &[LOCAL], local_ranks: &[] },
    Launcher {
        name: "torchrun",
        rank: "RANK",
        ranks: "WORLD_SIZE",
        local: &["LOCAL_RANK"],
        local_ranks: &["LOCAL_WORLD_SIZE"],
    },
    Launcher {
        name: "Open MPI",
        rank: "OMPI_COMM_WORLD_RANK",
        ranks: "OMPI_COMM_WORLD_SIZE",
        local: &["OMPI_COMM_WORLD_LOCAL_RANK"],
        local_ranks: &["OMPI_COMM_WORLD_LOCAL_SIZE"],
    },
    Launcher {
        name: "PMI",
        rank: "PMI_RANK",
        ranks: "PMI_SIZE",
        local: &["MPI_LOCALRANKID", "SLURM_LOCALID"],
        local_ranks: &["MPI_LOCALNRANKS"],
    },
    Launcher {
        name: "Slurm",
        rank: "SLURM_PROCID",
        ranks: "SLURM_NTASKS",
        local: &["SLURM_LOCALID"],
        local_ranks: &["SLURM_NTASKS_PER_NODE"],
    },
];

/// Why the environment does not say which rank this process is.
#[derive(Debug, PartialEq, Eq, Error)]
pub(crate) enum RankEnvironmentError {
    #[error("{variable} is `{text}`, and no number of a rank")]
    RankNumber { variable: String, text: String },
    #[error("{set} is set and {missing} is not: ranks need both")]
    MissingVariable { set: &'static str, missing: &'static str },
    #[error("{} is {rank} and {} is {ranks}: ranks count from 0, and there are at most {MAX_RANKS}", .variables.0, .variables.1)]
    RankRange { variables: (&'static str, &'static str), rank: u32, ranks: u32 },
    #[error("{launcher} does not say where rank 0 is; set {HOST} to the name of its node, for all ranks")]
    NoHost { launcher: &'static str },
    #[error("MASTER_PORT is {0}, and there is no next one; set {PORT}")]
    NoNextPort(u16),
    #[error("{variable} is `{text}`, and no port: those are from 1 to 65535")]
    Port { variable: &'static str, text: String },
}

/// Determines the rank of this process; `None` if it is not one of several ranks.
pub(crate) fn rank_environment(
    variable: impl Fn(&str) -> Option<String>,
) -> Result<Option<RankEnvironment>, RankEnvironmentError> {
    let set = |name: &str| variable(name).filter(|value| !value.trim().is_empty());
    let number = |name: &str| match set(name) {
        None => Ok(None),
        Some(text) => {
            let number = text.trim().parse::<u32>();
            number.map(Some).map_err(|_| RankEnvironmentError::RankNumber { variable: name.into(), text })
        }
    };
    let first = |names: &[&str]| names.iter().find(|name| set(name).is_some()).map_or(Ok(None), |name| number(name));
    // Only Clk uses these names. If one of the two is set without the other, that is an error.
    for (one, other) in [(RANK, RANKS), (RANKS, RANK)] {
        if set(one).is_some() && set(other).is_none() {
            return Err(RankEnvironmentError::MissingVariable { set: one, missing: other });
        }
    }
    let Some(launcher) = LAUNCHERS.iter().find(|of| set(of.rank).is_some() && set(of.ranks).is_some()) else {
        return Ok(None);
    };
    let rank = number(launcher.rank)?.unwrap_or(0);
    let ranks = number(launcher.ranks)?.unwrap_or(1);
    if ranks == 0 || ranks > MAX_RANKS || rank >= ranks {
        return Err(RankEnvironmentError::RankRange { variables: (launcher.rank, launcher.ranks), rank, ranks });
    }
    if ranks == 1 {
        return Ok(None);
    }
    let local = first(launcher.local)?.unwrap_or(if launcher.local_ranks.is_empty() { rank } else { 0 });
    let is_one_node = first(launcher.local_ranks)? == Some(ranks) || set("SLURM_NNODES").as_deref() == Some("1");
    let host = set(HOST).or_else(|| set("MASTER_ADDR"));
    let host = host.or_else(|| is_one_node.then(|| "127.0.0.1".to_string()));
    let host = host.or_else(|| first_host(&set("SLURM_STEP_NODELIST").or_else(|| set("SLURM_JOB_NODELIST"))?));
    let host = host.or_else(|| (launcher.name == "clk").then(|| "127.0.0.1".to_string()));
    let host = host.ok_or(RankEnvironmentError::NoHost { launcher: launcher.name })?;
    let port = match (set(PORT), set("MASTER_PORT")) {
        (Some(port), _) => port_of(PORT, &port)?,
        (None, Some(port)) => {
            let port = port_of("MASTER_PORT", &port)?;
            port.checked_add(1).ok_or(RankEnvironmentError::NoNextPort(port))?
        }
        (None, None) => {
            let job = ["SLURM_JOB_ID", "SLURM_STEP_ID", "PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "PMI_JOBID"];
            let text: Vec<String> = job.iter().filter_map(|name| set(name)).collect();
            PORTS.start + (fnv1a(&text.join("/")) % u64::from(PORTS.end - PORTS.start)) as u16
        }
    };
    Ok(Some(RankEnvironment { rank, ranks, local, host, port, token: set(TOKEN).unwrap_or_default() }))
}

fn port_of(name: &'static str, text: &str) -> Result<u16, RankEnvironmentError> {
    let port = text.trim().parse::<u16>().ok().filter(|port| *port > 0);
    port.ok_or_else(|| RankEnvironmentError::Port { variable: name, text: text.into() })
}

/// Computes the FNV-1a hash of a text, which is the same on every machine.
pub(super) fn fnv1a(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

/// Returns the first host name in a Slurm node list: `n01` for `n[01-04,07]`.
fn first_host(list: &str) -> Option<String> {
    let end = list.find([',', '[']).unwrap_or(list.len());
    let (name, rest) = list.split_at(end);
    let first: String = match rest.strip_prefix('[') {
        Some(inside) => {
            let number = inside.split([',', '-', ']']).next().unwrap_or("");
            let suffix = inside.split_once(']').map_or("", |(_, suffix)| suffix);
            let suffix = suffix.split(',').next().unwrap_or("");
            if suffix.contains('[') {
                return None;
            }
            format!("{name}{number}{suffix}")
        }
        None => name.to_string(),
    };
    (!first.is_empty()).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(variables: &[(&str, &str)]) -> Result<Option<RankEnvironment>, RankEnvironmentError> {
        rank_environment(|name| variables.iter().find(|(own, _)| *own == name).map(|(_, value)| value.to_string()))
    }

    fn detected(variables: &[(&str, &str)]) -> (u32, u32, u32, String, u16) {
        let place = of(variables).expect("sound").expect("several ranks");
        (place.rank, place.ranks, place.local, place.host, place.port)
    }

    #[test]
    fn launchers_are_detected_by_variables() {
        let torchrun = [
            ("RANK", "5"),
            ("WORLD_SIZE", "8"),
            ("LOCAL_RANK", "1"),
            ("LOCAL_WORLD_SIZE", "4"),
            ("MASTER_ADDR", "head"),
            ("MASTER_PORT", "29500"),
        ];
        assert_eq!(detected(&torchrun), (5, 8, 1, "head".into(), 29501));
        let own = [("CLK_RANK", "1"), ("CLK_RANKS", "2"), ("CLK_PORT", "4000")];
        assert_eq!(detected(&own), (1, 2, 1, "127.0.0.1".into(), 4000));
        let both: Vec<_> = torchrun.into_iter().chain(own).collect();
        assert_eq!(detected(&both), (1, 2, 1, "head".into(), 4000), "the own variables come first");
        let mpi = [
            ("OMPI_COMM_WORLD_RANK", "3"),
            ("OMPI_COMM_WORLD_SIZE", "4"),
            ("OMPI_COMM_WORLD_LOCAL_RANK", "3"),
            ("OMPI_COMM_WORLD_LOCAL_SIZE", "4"),
            ("CLK_PORT", "4001"),
        ];
        assert_eq!(detected(&mpi), (3, 4, 3, "127.0.0.1".into(), 4001));
        let pmi =
            [("PMI_RANK", "1"), ("PMI_SIZE", "2"), ("MPI_LOCALRANKID", "1"), ("CLK_HOST", "n1"), ("CLK_PORT", "1")];
        assert_eq!(detected(&pmi), (1, 2, 1, "n1".into(), 1));
        let slurm = [
            ("SLURM_PROCID", "2"),
            ("SLURM_NTASKS", "4"),
            ("SLURM_LOCALID", "0"),
            ("SLURM_STEP_NODELIST", "gpu[07-08]"),
            ("SLURM_JOB_ID", "1234"),
        ];
        let (rank, ranks, local, host, port) = detected(&slurm);
        assert_eq!((rank, ranks, local, &host[..]), (2, 4, 0, "gpu07"));
        assert!(PORTS.contains(&port));
    }

    #[test]
    fn single_process_is_not_a_group() {
        assert_eq!(of(&[]), Ok(None));
        assert_eq!(of(&[("RANK", "0"), ("WORLD_SIZE", "1")]), Ok(None));
        assert_eq!(of(&[("RANK", "0")]), Ok(None), "many things are called so");
    }

    #[test]
    fn invalid_variables_are_errors() {
        let wrong = |variables: &[(&str, &str)]| of(variables).expect_err("an error").to_string();
        assert!(wrong(&[("RANK", "x"), ("WORLD_SIZE", "2")]).contains("RANK is `x`"));
        assert!(wrong(&[("CLK_RANK", "1")]).contains("CLK_RANKS is not"));
        assert!(wrong(&[("CLK_RANKS", "2"), ("RANK", "1"), ("WORLD_SIZE", "2")]).contains("CLK_RANK is not"));
        assert!(wrong(&[("RANK", "2"), ("WORLD_SIZE", "2")]).contains("count from 0"));
        assert!(wrong(&[("CLK_RANK", "0"), ("CLK_RANKS", "2"), ("CLK_PORT", "70000")]).contains("no port"));
        let unknown =
            [("OMPI_COMM_WORLD_RANK", "0"), ("OMPI_COMM_WORLD_SIZE", "2"), ("OMPI_COMM_WORLD_LOCAL_SIZE", "1")];
        assert!(wrong(&unknown).contains("CLK_HOST"));
    }

    #[test]
    fn slurm_node_lists_are_parsed() {
        let first = |list: &str| first_host(list).unwrap_or_default();
        assert_eq!(first("n[01-04,07]"), "n01");
        assert_eq!(first("n3,n5"), "n3");
        assert_eq!(first("n[1,3].cluster,m1"), "n1.cluster");
        assert_eq!(first("r[1-2]n[1-4]"), "");
        assert_eq!(first("alone"), "alone");
    }
}
