//! Rank and size from the environment of the launcher that started this process.

use forebay_host::environment;
use forebay_types::{Error, Result, limits};

/// Pairs of variables that launchers set, the most specific first: an `mpiexec` inside a batch job
/// sets its own beside those of the job.
///
/// `forebay run -n` sets the first pair, for the ranks that it starts itself. Open MPI's and PRRTE's
/// `mpiexec` set the second (and `PMIX_RANK`, which tells no size); Hydra, that is MPICH's, Intel's
/// and MVAPICH's, and `srun --mpi=pmi2` the third. Slurm's size is that of the *step*: in the script
/// of a job `SLURM_PROCID` is 0 and `SLURM_NTASKS` what was asked for, and a program that the script
/// starts by hand is alone all the same.
const PAIRS: [(&str, &str, &str); 5] = [
    ("forebay run", environment::RANK, environment::RANKS),
    ("Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("MPICH", "PMI_RANK", "PMI_SIZE"),
    ("MVAPICH", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"),
    ("Slurm", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
];

/// This process's rank and the number of ranks: from the arguments, else from the launcher,
/// else 0 of 1.
pub fn rank_and_size(rank: Option<u32>, size: Option<u32>) -> Result<(u32, u32)> {
    rank_and_size_in(rank, size, |name| std::env::var(name).ok())
}

fn rank_and_size_in(
    rank: Option<u32>,
    size: Option<u32>,
    env: impl Fn(&str) -> Option<String>,
) -> Result<(u32, u32)> {
    let (rank, size) = match (rank, size) {
        (Some(r), Some(s)) => (r, s),
        (None, None) => from_environment(&env)?.unwrap_or((0, 1)),
        (None, Some(1)) => (0, 1),
        (Some(rank), None) => return Err(one_alone(&format!("the rank {rank}"))),
        (None, Some(size)) => return Err(one_alone(&format!("the number of ranks, {size},"))),
    };
    if size == 0 || rank >= size || size as usize > limits::RANKS {
        return Err(Error::bad(format!(
            "rank {rank} of {size} is not possible; ranks count from 0 and there are at most {}",
            limits::RANKS
        )));
    }
    Ok((rank, size))
}

/// Ranks of this launch on this host, where the launcher says it.
pub fn ranks_here() -> Option<u32> {
    ranks_here_in(|name| std::env::var(name).ok())
}

fn ranks_here_in(env: impl Fn(&str) -> Option<String>) -> Option<u32> {
    const HERE: [&str; 4] = [
        "OMPI_COMM_WORLD_LOCAL_SIZE",
        "MPI_LOCALNRANKS",
        "MV2_COMM_WORLD_LOCAL_SIZE",
        "SLURM_STEP_TASKS_PER_NODE",
    ];
    let told = HERE.iter().find_map(|name| env(name))?;
    // Slurm lists the nodes: `4(x2),3`. The fullest one counts.
    told.split(',').filter_map(|n| n.split('(').next()?.trim().parse().ok()).max()
}

fn one_alone(what: &str) -> Error {
    Error::bad(format!(
        "{what} was given alone: give rank and number of ranks, or neither to take them from the launcher"
    ))
}

fn from_environment(env: &impl Fn(&str) -> Option<String>) -> Result<Option<(u32, u32)>> {
    for (launcher, rank, size) in PAIRS {
        let (Some(r), Some(s)) = (env(rank), env(size)) else { continue };
        match (r.trim().parse(), s.trim().parse()) {
            (Ok(r), Ok(s)) => return Ok(Some((r, s))),
            _ => {
                return Err(Error::bad(format!(
                    "{launcher} set {rank}={r:?} and {size}={s:?}, which are not numbers; give rank and size yourself"
                )));
            }
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(vars: &'static [(&'static str, &'static str)]) -> impl Fn(&str) -> Option<String> {
        move |name| vars.iter().find(|v| v.0 == name).map(|v| v.1.to_owned())
    }

    #[test]
    fn each_launcher_is_understood() {
        for (rank, size) in [
            ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
            ("PMI_RANK", "PMI_SIZE"),
            ("MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"),
            ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
        ] {
            let env = |name: &str| {
                if name == rank { Some("3".to_owned()) } else { (name == size).then(|| "8".to_owned()) }
            };
            assert_eq!(rank_and_size_in(None, None, env).unwrap(), (3, 8));
        }
        assert_eq!(rank_and_size_in(None, None, with(&[])).unwrap(), (0, 1));
    }

    #[test]
    fn ranks_of_a_host_are_counted_as_the_launcher_says() {
        assert_eq!(ranks_here_in(with(&[])), None);
        assert_eq!(ranks_here_in(with(&[("MPI_LOCALNRANKS", "8")])), Some(8));
        assert_eq!(ranks_here_in(with(&[("SLURM_STEP_TASKS_PER_NODE", "4(x2),12")])), Some(12));
        assert_eq!(ranks_here_in(with(&[("OMPI_COMM_WORLD_LOCAL_SIZE", "many")])), None);
    }

    #[test]
    fn the_launcher_inside_a_batch_job_counts_before_the_job() {
        let env = with(&[
            ("SLURM_PROCID", "0"),
            ("SLURM_STEP_NUM_TASKS", "1"),
            ("OMPI_COMM_WORLD_RANK", "2"),
            ("OMPI_COMM_WORLD_SIZE", "4"),
        ]);
        assert_eq!(rank_and_size_in(None, None, env).unwrap(), (2, 4));
    }

    #[test]
    fn a_program_started_by_hand_inside_a_batch_job_is_alone() {
        let script = with(&[("SLURM_PROCID", "0"), ("SLURM_NTASKS", "8"), ("SLURM_JOB_ID", "17")]);
        assert_eq!(rank_and_size_in(None, None, script).unwrap(), (0, 1));
        let shell = with(&[("SLURM_PROCID", "0"), ("SLURM_NTASKS", "8"), ("SLURM_STEP_NUM_TASKS", "1")]);
        assert_eq!(rank_and_size_in(None, None, shell).unwrap(), (0, 1));
    }

    #[test]
    fn arguments_win_and_nonsense_is_refused() {
        let env = with(&[("PMI_RANK", "1"), ("PMI_SIZE", "2")]);
        assert_eq!(rank_and_size_in(Some(5), Some(6), &env).unwrap(), (5, 6));
        assert!(rank_and_size_in(Some(6), Some(6), &env).is_err());
        assert!(rank_and_size_in(Some(0), None, &env).is_err());
        let odd = with(&[("PMI_RANK", "one"), ("PMI_SIZE", "2")]);
        assert!(rank_and_size_in(None, None, odd).unwrap_err().text().contains("PMI_RANK=\"one\""));
    }
}
