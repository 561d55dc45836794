// Package edge holds the tests of the service's outside, as whole processes: who is
// let in, what hostile callers can do, what happens under more load than can be done,
// and how instances come and go.
//
//	go test -timeout 15m ./edge
//
// Tests that measure run one at a time; they print what they measured, and ask for no
// more than a busy machine can give. With -goals they take longer and ask for what the
// service is to reach on a quiet one (make bench-edge). The others wait most of the
// time, and run in parallel after those.
//
// It has nothing but tests.
package edge
