// Package podcache lists pods from an informer, which holds only the fields that a snapshot needs.
//
//	err := informer.SetTransform(podcache.Strip)
//	pods, err := podcache.New(informer.GetIndexer())
package podcache
