// Package operations shows how the service itself fares: its instances, its store, what
// callers use, and what a caller may do.
//
// Each instance tells of itself every few seconds, in the store that they share: one small
// write, off the path of any call. Nothing is decided by it. Where the store is not shared,
// there is one instance.
package operations
