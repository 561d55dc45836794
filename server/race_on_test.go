//go:build race

package server_test

// raceDetected says whether races are looked for.
const raceDetected = true
