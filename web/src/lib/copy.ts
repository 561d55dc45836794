/** Puts a text on the clipboard; false: the browser does not let the page, as without TLS. */
export const copy = async (text: string): Promise<boolean> => navigator.clipboard?.writeText(text).then(() => true, () => false) ?? false;
