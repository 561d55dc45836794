// Package differential runs scenarios through Setpoint and through the real controllers
// of Kubernetes versions, and compares the outcomes of every step.
//
// A scenario is generated step by step (package generate): Setpoint decides, the
// simulated cluster follows, and so on to its end. Then the whole scenario goes to the
// oracle of the version, a process with the real controller (package oracle). Its
// outcomes are compared with Setpoint's: the replicas, whether and to what the scale
// was written, conditions, current metrics, events and the error of the reconcile. A
// scenario with a difference is made smaller and saved as a recording.
package differential
