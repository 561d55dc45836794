// Package keda tests the service with KEDA's own client code, and the effect of its answers
// with the real HorizontalController, as a process of the module conformance.
//
// The service runs as a process, because it and KEDA have both compiled the same contract.
package keda
