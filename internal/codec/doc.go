// Package codec encodes histories, and what a service stores beside them, in formats that every
// later version reads. recommender/encoding and server/record are its two users: the former has a
// history alone, the latter a record of the service.
package codec
