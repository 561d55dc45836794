// Package services implements the services of targets, of recommendations, KEDA's among them, and of fleets: it converts
// requests and responses. Package access has checked the caller's rights before, or is asked where an
// encoded message is read. Package decision
// decides, and package stored has the specs and observations of targets. Most requests and responses take a path without protobuf
// messages; see package encoded.
package services
