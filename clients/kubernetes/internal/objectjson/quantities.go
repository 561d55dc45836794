package objectjson

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"
)

// maxExponentDigits bounds the exponent of a quantity, in digits. The library's
// parser raises 10 to the exponent in places: "1e-2147483648" keeps it busy for
// hours. Anything near the bound is zero or far beyond what the HPA computes with.
const maxExponentDigits = 5

// resourceLists are the fields with quantities by resource name.
var resourceLists = map[string]bool{
	"requests": true, "limits": true, "overhead": true, "usage": true,
	"allocatedResources": true, "capacity": true, "allocatable": true,
}

// quantityFields are the fields with one quantity, wherever they are.
var quantityFields = map[string]bool{
	"averageValue": true, "tolerance": true, "Tolerance": true,
	"targetValue": true, "targetAverageValue": true,
	"currentValue": true, "currentAverageValue": true,
	"sizeLimit": true, "divisor": true,
}

// valueHolders are the fields below which "value" is a quantity: targets and statuses of
// metrics, and single readings or lists of them. Elsewhere it may be that of an environment
// variable.
var valueHolders = map[string]bool{
	"": true, "items": true, "target": true, "current": true,
	"customMetrics": true, "externalMetrics": true,
}

// labelFields have free text under free names.
var labelFields = map[string]bool{
	"labels": true, "annotations": true, "matchLabels": true, "metricLabels": true,
}

// refuseHugeExponents returns an error that names the first quantity of data with an exponent
// beyond maxExponentDigits.
func refuseHugeExponents(data []byte) error {
	if !mayHaveHugeExponent(data) {
		return nil
	}
	for path, value := range quantities(data) {
		if mayHaveHugeExponent([]byte(value)) {
			return fmt.Errorf("%s: %q is not a quantity: the exponent has more than %d digits", path, value, maxExponentDigits)
		}
	}
	return nil
}

// mayHaveHugeExponent looks for a digit, an "e" and many digits in a row. Commit ids look like
// that too, so a match only starts the exact check.
func mayHaveHugeExponent(data []byte) bool {
	for i := 1; i < len(data)-maxExponentDigits; i++ {
		if data[i]|0x20 != 'e' || !numeric(data[i-1]) {
			continue
		}
		digits := i + 1
		if data[digits] == '-' || data[digits] == '+' {
			digits++
		}
		end := digits
		for end < len(data) && data[end] >= '0' && data[end] <= '9' {
			end++
		}
		if end-digits > maxExponentDigits {
			return true
		}
	}
	return false
}

func numeric(c byte) bool { return c == '.' || c >= '0' && c <= '9' }

// malformedQuantity finds the first quantity of data that does not parse.
func malformedQuantity(data []byte) (path, value string, found bool) {
	for path, value := range quantities(data) {
		if _, err := resource.ParseQuantity(value); err != nil {
			return path, value, true
		}
	}
	return "", "", false
}

// quantities yields path and text of every value in the place of a quantity, in the order of
// the document, with the fields of an object sorted.
func quantities(data []byte) iter.Seq2[string, string] {
	return func(yield func(path, value string) bool) {
		var tree any
		// Numbers such as 1e999999 do not fit into a float64: keep their text.
		numbers := json.NewDecoder(bytes.NewReader(data))
		numbers.UseNumber()
		if err := numbers.Decode(&tree); err != nil {
			return
		}
		walk(tree, place{}, yield)
	}
}

// place is the place of a value.
type place struct {
	path string
	// field is the field of the value, without its index in a list.
	field string
}

func (p place) child(key string) place {
	if p.path == "" {
		return place{path: key, field: key}
	}
	return place{path: p.path + "." + key, field: key}
}

func (p place) item(i int) place {
	return place{path: fmt.Sprintf("%s[%d]", p.path, i), field: p.field}
}

// walk descends into node, at place p; false ends it.
func walk(node any, p place, yield func(path, value string) bool) bool {
	switch v := node.(type) {
	case []any:
		for i, item := range v {
			if !walk(item, p.item(i), yield) {
				return false
			}
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if labelFields[key] {
				continue
			}
			if text, ok := scalar(v[key]); ok && p.holdsQuantity(key) {
				if !yield(p.child(key).path, text) {
					return false
				}
			} else if !walk(v[key], p.child(key), yield) {
				return false
			}
		}
	}
	return true
}

// holdsQuantity reports whether the field key of the object at p is a quantity.
func (p place) holdsQuantity(key string) bool {
	return resourceLists[p.field] || quantityFields[key] || key == "value" && valueHolders[p.field]
}

// scalar returns the text of a string or number.
func scalar(node any) (string, bool) {
	switch v := node.(type) {
	case string:
		return v, true
	case json.Number:
		return v.String(), true
	}
	return "", false
}
