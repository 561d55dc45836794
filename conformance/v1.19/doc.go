// Package v119 drives the real HorizontalController of Kubernetes v1.19 through
// scenarios, in the format of recordings.
//
// All of it is in tests, for it takes what testing/synctest has: a clock that stands
// still. The test binary is an oracle: a harness runs it as
//
//	go test -c -o v1.19.test .
//	./v1.19.test -test.run='^TestOracle$' -test.timeout=0 -oracle.serve
//
// with [oracle.Request]s on its standard input and file descriptor 3 for its
// [oracle.Answer]s. The other tests show that the driver is right.
//
// [oracle.Request]: https://pkg.go.dev/github.com/setpoint-dev/setpoint/conformance/oracle#Request
// [oracle.Answer]: https://pkg.go.dev/github.com/setpoint-dev/setpoint/conformance/oracle#Answer
package v119
