// Package simulate reads scenarios and specs of simulations and writes what comes of them, as
// tables, CSV, JSON lines and pictures. What is simulated is package simulation's.
package simulate
