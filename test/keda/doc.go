// Package keda tests the service with KEDA's own client code, and what KEDA makes of its
// answers with the real HorizontalController, as a process of the module conformance.
//
// The service runs as a process, for it and KEDA have each compiled the same contract.
package keda
