// Package operations reports the state of the service itself: its instances, its store, the
// usage of its callers, and what a caller may do. It also tells agents of others that act on the
// same platform.
//
// Each instance writes a heartbeat to the shared store every few seconds: one small write,
// outside of any call. No decision depends on it. Without a shared store there is one
// instance.
package operations
