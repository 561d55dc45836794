// Package encoding is how histories are stored: as bytes that every later version reads.
//
//	value := encoding.AppendHistory(nil, &history)
//	...
//	history, err := encoding.DecodeHistory(value)
//
// It decides nothing; package recommender says what a history means.
package encoding
