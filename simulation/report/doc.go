// Package report writes the results of simulations: tables, CSV, JSON lines, pictures, and a
// scenario as a script for k6.
package report
