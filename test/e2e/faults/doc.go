// Package faults holds the tests of what breaks between the service and Redis: the
// network, by toxiproxy in this process, and Redis itself, a real redis-server. The
// service runs in this process too, on real listeners, with timeouts that are short
// but in proportion to the defaults.
//
// Of every fault the tests ask the same: callers get the error that the contract
// names, in bounded time, without the driver's text; what was acknowledged is
// recorded once, and what was refused once at most, whatever is retried; and when
// the fault is gone, calls succeed and readiness returns by themselves.
//
// It has nothing but tests.
package faults
