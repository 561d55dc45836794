// Package differential runs scenarios through Setpoint and through the real
// controllers of Kubernetes versions, and compares what comes of every step.
//
// A scenario is made step by step (package generate): Setpoint decides, the made-up
// cluster follows, and so on to its end. Then the whole scenario goes to the oracle of
// the version, a process with the real controller in it (package oracle). What it
// answers is compared with what Setpoint had answered: the replicas, whether and to
// what the scale was written, conditions, current metrics, events and the error of
// the reconcile. A scenario that comes out otherwise is shrunk (package shrink) and
// kept as a recording.
package differential
