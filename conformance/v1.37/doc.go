// Package v137 is the oracle of Kubernetes v1.37, of which ../controller drives the real
// HorizontalController through scenarios, in the format of recordings.
//
// It is a separate module, because two versions of Kubernetes can't be in one. It compiles
// ../controller, which also drives v1.36, with the code of v1.37.
//
// A harness runs the test binary as
//
//	go test -c -o v1.37.test .
//	./v1.37.test -test.run='^TestOracle$' -oracle.serve
//
// in this folder, with [oracle.Request]s on its standard input and file descriptor 3 for its
// [oracle.Answer]s.
//
// [oracle.Request]: https://pkg.go.dev/github.com/setpoint-dev/setpoint/conformance/oracle#Request
// [oracle.Answer]: https://pkg.go.dev/github.com/setpoint-dev/setpoint/conformance/oracle#Answer
package v137
