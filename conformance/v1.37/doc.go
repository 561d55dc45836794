// Package v137 drives the real HorizontalController of Kubernetes v1.37 through
// scenarios, in the format of recordings.
//
// It is a module of its own, for two versions of Kubernetes can't be in one. Its code
// is that of ../v1.36, but for recordings_test.go, which knows the texts that v1.37
// words in another way. What the version has beside those is in the controller, and
// the driver suits both: resource versions and generations grow as an API server has
// them grow, so no reconcile is skipped for a stale cache, and HPAs are registered
// and forgotten by the controller's own handlers, whichever store it keeps them in.
//
// A harness runs the test binary as
//
//	go test -c -o v1.37.test .
//	./v1.37.test -test.run='^TestOracle$' -oracle.serve
//
// in this folder, with [oracle.Request]s on its standard input and file descriptor 3
// for its [oracle.Answer]s.
//
// [oracle.Request]: https://pkg.go.dev/github.com/setpoint-dev/setpoint/conformance/oracle#Request
// [oracle.Answer]: https://pkg.go.dev/github.com/setpoint-dev/setpoint/conformance/oracle#Answer
package v137
