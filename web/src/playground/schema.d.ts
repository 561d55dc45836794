// The module that tools/esbuild generates from the API's description.
declare module "schema:autoscaling" {
  interface Field {
    text?: string;
    of?: string;
    list?: boolean;
    values?: string[];
  }
  const messages: Record<string, Record<string, Field>>;
  export default messages;
}
