// Style sheets are imported for their effect alone: Vite takes them out of the script.
declare module "*.css";
