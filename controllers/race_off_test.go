//go:build !race

package controllers_test

// raceDetector: times say little.
const raceDetector = false
