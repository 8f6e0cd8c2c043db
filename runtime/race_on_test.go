//go:build race

package runtime_test

// raceDetector tells that the test has the race detector: it takes several times the time.
const raceDetector = true
