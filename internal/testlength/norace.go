//go:build !race

package testlength

// RaceDetector says whether the program is built with the race detector.
const RaceDetector = false
