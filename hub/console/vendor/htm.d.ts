declare const htm: { bind(h: (type: any, props: any, ...children: any[]) => any): (parts: TemplateStringsArray, ...values: any[]) => any };
export default htm;
