#pragma once
// How often a job should write a checkpoint, and how much longer it then runs.
//
// J. W. Young, "A first order approximation to the optimum checkpoint interval", 1974; J. T. Daly, "A higher order
// estimate of the optimum checkpoint interval for restart dumps", 2006. Failures are a Poisson process. Hours.

namespace lzy {

/// The computing time between two checkpoints: Daly's estimate, of which Young's sqrt(2 * cost * mtbf) is the first term.
double BestInterval(double cost, double mtbf);
double YoungInterval(double cost, double mtbf);

/// Expected run time / computing time - 1 (Daly's complete model). `interval`: computing time between checkpoints;
/// `restart`: from a failure until the job computes again. Infinite if the job makes no progress.
double CheckpointOverhead(double interval, double cost, double restart, double mtbf);

/// Expected run time / computing time - 1 of a job that takes `hours` without `losses` (an hour), and begins again from
/// the start after each of them.
double StartAgainOverhead(double hours, double losses);

}  // namespace lzy
