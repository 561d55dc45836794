// Package services implements the services of the contract, and KEDA's: it checks permissions
// and converts requests and responses. Package decision decides, and package stored has the
// specs and observations of targets. Most requests and responses take a path without protobuf
// messages; see package encoded.
package services
