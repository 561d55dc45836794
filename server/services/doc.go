// Package services implements the services of the contract, and KEDA's: it checks what callers
// may do, converts requests and answers, and leaves decisions to package decision and what is
// stored of targets to package stored. The usual requests are read and answered without protobuf
// messages; see package encoded.
package services
