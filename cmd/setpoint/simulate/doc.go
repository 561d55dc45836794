// Package simulate reads the specs that are simulated and writes what comes of them, as
// tables, CSV, JSON lines and pictures. What is simulated is package simulation's, and its
// world is read by package simulation/scenario.
package simulate
