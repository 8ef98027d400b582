// Package prose cuts a text into chapters and sentences and picks the most telling of
// these, by classical methods that need no model, in scripts with spaces between words
// and without. Equal input gives equal bytes on every platform.
package prose
