// Package podcache lists pods from an informer that stores only the fields a snapshot needs.
//
//	err := informer.SetTransform(podcache.Strip)
//	pods, err := podcache.New(informer.GetIndexer())
package podcache
