// Package services implements the services of the contract, and KEDA's: it converts
// requests and responses. Package access has checked the caller's rights before, or is asked where an
// encoded message is read. Package decision
// decides, and package stored has the specs and observations of targets. Most requests and responses take a path without protobuf
// messages; see package encoded.
package services
