//go:build !race

package daemon_test

// raceDetector tells that the test, and so its daemon, has the race detector: it takes several times the memory and time.
const raceDetector = false
