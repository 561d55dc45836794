// Package encoding serializes histories, in a format that every later version reads.
//
//	value := encoding.AppendHistory(nil, &history)
//	...
//	history, err := encoding.DecodeHistory(value)
//
// It decides nothing; package recommender defines what a history means.
package encoding
