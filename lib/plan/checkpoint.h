#pragma once
// Computes how often a job should write a checkpoint, and how much longer the job then runs.
//
// J. W. Young, "A first order approximation to the optimum checkpoint interval", 1974; J. T. Daly, "A higher order estimate
// of the optimum checkpoint interval for restart dumps", 2006. Failures are a Poisson process. Times are hours.

namespace lzy {

/// The best computing time between two checkpoints: Daly's estimate. Its first term is Young's sqrt(2 * cost * mtbf).
double BestInterval(double cost, double mtbf);
double YoungInterval(double cost, double mtbf);

/// Expected run time / computing time - 1 (Daly's complete model). `interval`: computing time between checkpoints.
/// `restart`: time from a failure until the job computes again. Infinite if the job makes no progress.
double CheckpointOverhead(double interval, double cost, double restart, double mtbf);

/// Expected run time / computing time - 1 of a job of `hours` with `losses` per hour, which begins again from the start
/// after each loss.
double StartAgainOverhead(double hours, double losses);

}  // namespace lzy
